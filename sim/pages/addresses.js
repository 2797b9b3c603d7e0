// Addresses over time: who lies where, and what is free between; painted for the window in view.

const MAP_ROWS = 260;

class AddressMap {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    const { address, size } = run.stays;
    const most = address.reduce((high, at, i) => Math.max(high, at + size[i]), 1);
    this.showsBudget = run.budget !== null && run.budget <= FAR_BUDGET * most;
    this.high = 1.03 * (this.showsBudget ? Math.max(most, run.budget) : most);
    this.paints = run.categories.map((category) => pixel(color(category)));
    this.x_range = view.range();
    this.source = model("ColumnDataSource", { data: this.painted() });
    this.figure = this.draw();
    view.add("addresses", this.x_range, () => { this.source.data = this.painted(); });
  }

  painted() {
    const { stays, storages } = this.run;
    const { start, end, scale } = this.view.window(this.x_range);
    const columns = Math.max(Math.round(this.view.width), 200);
    const dots = new Uint32Array(columns * MAP_ROWS);
    const [across, up] = [columns / (end - start), MAP_ROWS / this.high];
    for (let i = 0; i < stays.start.length; i++) {
      if (stays.end[i] < start || stays.start[i] > end) continue;
      const left = Math.max(Math.round((stays.start[i] - start) * across), 0);
      const right = Math.min(Math.round((stays.end[i] - start) * across), columns);
      const low = Math.round(stays.address[i] * up);
      const high = Math.round((stays.address[i] + stays.size[i]) * up);
      const paint = this.paints[storages.category[stays.storage[i]]];
      for (let y = low; y < high; y++) dots.fill(paint, y * columns + left, y * columns + right);
    }
    const image = Bokeh.require("core/util/ndarray").ndarray(dots, { dtype: "uint32", shape: [MAP_ROWS, columns] });
    return { image: [image], x: [start / scale], y: [0], dw: [(end - start) / scale], dh: [this.high] };
  }

  draw() {
    const [size, unit] = unitOf(this.high, BYTE_UNITS);
    const ticks = roundTicks(this.high / size);
    const figure = makePlot({
      height: 320,
      min_border_left: axisWidth(),
      x_range: this.x_range,
      y_range: model("Range1d", { start: 0, end: this.high }),
      xLabel: `time (${this.view.unit})`,
      yLabel: `address (${unit})`,
      yTicks: { places: ticks.map((t) => t * size), labels: ticks.map((t) => String(Number(t.toPrecision(6)))) },
    });
    this.view.addTools(figure);
    addGlyph(figure, model("ImageRGBA", {
      image: { field: "image" }, x: { field: "x" }, y: { field: "y" }, dw: { field: "dw" }, dh: { field: "dh" },
    }), this.source);
    if (this.showsBudget) {
      figure.add_layout(model("Span", {
        location: this.run.budget, dimension: "width", line_color: color("ink"), line_dash: [6, 3],
      }));
    }
    figure.add_layout(this.view.cursor("addresses"));
    return figure;
  }

  // Who lies at a place: the storage, or null where it is free.
  storageAt(time, address) {
    const { start, end, address: low, size, storage } = this.run.stays;
    for (let i = 0; i < start.length; i++) {
      if (start[i] <= time && time < end[i] && low[i] <= address && address < low[i] + size[i]) return storage[i];
    }
    return null;
  }
}

// A color of the page, "#rrggbb", as a dot of an image.
function pixel(text) {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
