// Elements, and the colors of charts. Texts are put in as text: names are never markup.

function el(tag, options = {}, ...children) {
  const { on = {}, data = {}, ...attributes } = options;
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, value] of Object.entries(data)) made.dataset[name] = value;
  for (const [name, listener] of Object.entries(on)) made.addEventListener(name, listener);
  made.append(...children.filter((child) => child !== null));
  return made;
}

// A text that others wrote: its direction stays its own.
function name(text) {
  return el("bdi", {}, text);
}

function color(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${variable}`).trim();
}

const CATEGORY_LABELS = {
  constant: "constants",
  output: "outputs",
  forward: "made in the forward pass",
  backward: "made in the backward pass",
};

function swatch(fill, isLine = false) {
  const made = el("i", { class: isLine ? "swatch line" : "swatch", "aria-hidden": "true" });
  made.style.setProperty("--swatch", fill);
  return made;
}

const WIDE = 28; // letters

function factList(facts) {
  const rows = facts.map(([key, value]) =>
    el("div", { class: value.length > WIDE ? "wide" : null }, el("dt", {}, name(key)), el("dd", {}, name(value))));
  return el("dl", { class: "facts" }, ...rows);
}

// Add a glyph that looks the same whether it is chosen or not: one to paint instead of four.
function addGlyph(figure, glyph, source) {
  return figure.add_glyph(glyph, source, { selection_glyph: null, nonselection_glyph: null, muted_glyph: null });
}

// A figure of the chart library without its own look: ours is that of the page.
function makeFigure(options) {
  const figure = Bokeh.Plotting.figure({
    sizing_mode: "stretch_width",
    toolbar_location: null,
    tools: [],
    background_fill_color: null,
    border_fill_color: null,
    outline_line_color: null,
    min_border: 4,
    ...options,
  });
  const font = getComputedStyle(document.body).fontFamily;
  for (const axis of [figure.xaxis, figure.yaxis]) {
    axis.axis_label_text_font = axis.major_label_text_font = font;
    axis.axis_label_text_font_style = "normal";
    axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px";
    axis.axis_label_text_color = axis.major_label_text_color = color("quiet");
    axis.axis_line_color = axis.minor_tick_line_color = null;
    axis.major_tick_line_color = color("rule");
  }
  figure.xgrid.grid_line_color = null;
  figure.ygrid.grid_line_color = color("rule");
  return figure;
}

// Round numbers between 0 and a limit, some four to six.
function roundTicks(limit, steps = [1, 2, 5]) {
  const power = 10 ** Math.floor(Math.log10(limit / 4));
  const step = [...steps, 10].map((s) => s * power).find((s) => limit / s <= 6) ?? 10 * power;
  const ticks = [];
  for (let i = 0; i * step <= limit * (1 + 1e-9); i++) ticks.push(i * step);
  return ticks;
}

function setTicks(axis, places, labels) {
  axis.ticker = new Bokeh.FixedTicker({ ticks: places, minor_ticks: [] });
  axis.major_label_overrides = new Map(places.map((place, i) => [place, labels[i]]));
}

function unitOf(value, units) {
  return units.find(([size]) => value >= size) ?? units.at(-1);
}
