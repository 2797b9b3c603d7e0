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
function addGlyph(plot, glyph, source) {
  return plot.add_glyph(glyph, source, { selection_glyph: null, nonselection_glyph: null, muted_glyph: null });
}

// Add a glyph of data of its own.
function addData(plot, kind, data, looks) {
  const fields = Object.fromEntries(Object.keys(data).map((key) => [key, { field: key }]));
  return addGlyph(plot, model(kind, { ...fields, ...looks }), model("ColumnDataSource", { data }));
}

// A plot with axes below and at the left, without the library's own look: ours is that of the page.
function makePlot({ isLog = false, xLabel, yLabel, xTicks = null, yTicks, grid = yTicks.places, ...options }) {
  const plot = model("Plot", {
    sizing_mode: "stretch_width",
    toolbar_location: null,
    background_fill_color: null,
    border_fill_color: null,
    outline_line_color: null,
    min_border: 4,
    x_scale: model("LinearScale"),
    y_scale: model(isLog ? "LogScale" : "LinearScale"),
    ...options,
  });
  const lines = { axis: null, grid_line_color: color("rule"), ticker: fixedTicks(grid) };
  plot.add_layout(model("Grid", { dimension: 1, ...lines }), "center");
  plot.add_layout(model("LinearAxis", axisLooks(xLabel, xTicks)), "below");
  plot.add_layout(model(isLog ? "LogAxis" : "LinearAxis", axisLooks(yLabel, yTicks)), "left");
  return plot;
}

function fixedTicks(places) {
  return model("FixedTicker", { ticks: places, minor_ticks: [] });
}

// Without ticks of its own an axis finds some.
function axisLooks(label, ticks) {
  const font = getComputedStyle(document.body).fontFamily;
  const own = ticks === null ? {} : {
    ticker: fixedTicks(ticks.places),
    major_label_overrides: new Map(ticks.places.map((place, i) => [place, ticks.labels[i]])),
  };
  return {
    axis_label: label,
    axis_label_text_font: font,
    major_label_text_font: font,
    axis_label_text_font_style: "normal",
    axis_label_text_font_size: "12px",
    major_label_text_font_size: "12px",
    axis_label_text_color: color("quiet"),
    major_label_text_color: color("quiet"),
    axis_line_color: null,
    minor_tick_line_color: null,
    major_tick_line_color: color("rule"),
    ...own,
  };
}

// Round numbers from one to another, some four to six; the last alone if they are the same.
function roundTicks(limit, steps = [1, 2, 5], from = 0) {
  const width = limit - from;
  if (!(width > 0)) return [limit];
  const power = 10 ** Math.floor(Math.log10(width / 4));
  const step = [...steps, 10].map((s) => s * power).find((s) => width / s <= 6) ?? 10 * power;
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= limit * (1 + 1e-9); i++) ticks.push(i * step);
  return ticks;
}

function unitOf(value, units) {
  return units.find(([size]) => value >= size) ?? units.at(-1);
}
