// The chart library does much at every paint that changes nothing here, and half of a frame's time
// went there. Where it still has these places, it is spared the work; where not, it is only slower.

function lessWork() {
  // It asks the style sheet for every color and width; all of ours are in its models.
  const visuals = inside("core/visuals/visual", "VisualProperties");
  if (visuals?._get_css_value) visuals._get_css_value = () => "";

  // It tells the browser where each glyph lies, by a style sheet that changes as the glyph moves; what
  // is there is painted, and nothing of ours hangs on it.
  const renderer = inside("models/renderers/renderer", "RendererView");
  if (renderer?.update_position) {
    const place = renderer.update_position;
    renderer.update_position = function () {
      if (this.panel) place.call(this);
    };
  }

  // It writes where each part lies, also where that is as before, and the browser styles all anew.
  const sheet = inside("core/dom", "InlineStyleSheet");
  if (sheet?._update) {
    const write = sheet._update;
    sheet._update = function (text) {
      if (this.el.textContent !== text) write.call(this, text);
    };
  }
}

// It asks for the size of letters at every label; here that does not change while it is shown.
function keepFontSize(shown) {
  for (const view of [shown].flat()) {
    const size = view?.base_font_size;
    if (size) Object.defineProperty(view, "base_font_size", { value: size });
  }
}

// The keys of a chart are those of the element that it is in; its own parts are no stops of Tab.
function keepFocusOut(element) {
  for (const inner of element.querySelectorAll("*")) {
    if (inner.shadowRoot) keepFocusOut(inner.shadowRoot);
    if (inner.tabIndex >= 0) inner.tabIndex = -1;
  }
}

function inside(module, name) {
  try {
    return Bokeh.require(module)[name].prototype;
  } catch {
    return null;
  }
}
