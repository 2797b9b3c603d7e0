// The chart library, part by part: what no chart here needs is never looked at, so pages open sooner.

const PARTS = {
  Plot: "plots/plot", LinearAxis: "axes/linear_axis", LogAxis: "axes/log_axis", Grid: "grids/grid",
  LinearScale: "scales/linear_scale", LogScale: "scales/log_scale", Range1d: "ranges/range1d",
  ColumnDataSource: "sources/column_data_source", FixedTicker: "tickers/fixed_ticker", Span: "annotations/span",
  PanTool: "tools/gestures/pan_tool", WheelZoomTool: "tools/gestures/wheel_zoom_tool",
  VAreaStep: "glyphs/varea_step", Quad: "glyphs/quad", ImageRGBA: "glyphs/image_rgba", Line: "glyphs/line",
  Step: "glyphs/step", Scatter: "glyphs/scatter", Segment: "glyphs/segment",
};

function model(part, options) {
  return new (Bokeh.require(`models/${PARTS[part]}`)[part])(options);
}

// Show a plot in an element; give its view, once it is painted.
async function showPlot(plot, element) {
  const { Document } = Bokeh.require("document/document");
  const shown = new Document();
  shown.add_root(plot);
  const [view] = await Bokeh.embed.add_document_standalone(shown, element);
  if (!shown.is_idle) await new Promise((resolve) => { shown.idle.connect(resolve); });
  return view;
}
