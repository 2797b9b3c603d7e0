// Memory over time, stacked by category, and under it when storages left and calls ran again.
//
// However many events there are, only what the window shows is drawn, and of that in each bin of
// the time the highest, the lowest and the last: every peak is in the picture at every zoom.

const POINTS_APART = 3; // pixels a bin
const MARGIN = 0.5; // of the window, drawn at each side of it: moving within it draws no data anew
const STRIP_BINS = 240;
const STRIPS = [["evicted", "evict"], ["recomputed", "recompute"], ["offloaded", "offload"],
  ["copied ahead", "save"], ["prefetched", "prefetch"]];
const STRIP = 0.075; // of the height of the plot
const FAR_BUDGET = 2.5;
const NARROW = 600; // pixels

// Charts of one time stand under each other.
function axisWidth() {
  return document.documentElement.clientWidth < NARROW ? 84 : 110;
}

function lowestRow(times, time) {
  return Math.max(upTo(times, time) - 1, 0);
}

// Rows that matter between two times: by bin the lowest, highest and last value.
function rowsInView(times, values, start, end, bins) {
  const from = lowestRow(times, start);
  const to = Math.min(upTo(times, end) + 1, times.length);
  const rows = [];
  if (to - from <= 3 * bins) {
    for (let row = from; row < to; row++) rows.push(row);
    return rows;
  }
  const width = (end - start) / bins;
  for (let row = from; row < to; ) {
    const limit = (Math.floor(times[row] / width) + 1) * width;
    let [low, high, next] = [row, row, row];
    for (; next < to && times[next] < limit; next++) {
      if (values[next] < values[low]) low = next;
      if (values[next] > values[high]) high = next;
    }
    if (next === row) next = row + 1;
    const kept = [Math.min(low, high), Math.max(low, high), next - 1];
    kept.forEach((one, i) => { if (i === 0 || one !== kept[i - 1]) rows.push(one); });
    row = next;
  }
  return rows;
}

class Timeline {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    this.top = this.height();
    this.strips = STRIPS.map(([label, action]) => [label, this.starts(action)])
      .filter(([, starts], i) => i < 2 || starts.length);
    this.x_range = view.range();
    this.reach = this.view.reach(this.x_range);
    this.areas = model("ColumnDataSource", { data: this.stacked() });
    this.bars = model("ColumnDataSource", { data: this.barred() });
    this.figure = this.draw();
    view.add("timeline", this.x_range, () => this.update());
  }

  height() {
    const { budget, highest: most } = this.run;
    this.showsBudget = budget !== null && budget <= FAR_BUDGET * most;
    return 1.05 * (this.showsBudget ? Math.max(most, budget) : most);
  }

  // When events of one kind happen; the results of one call are one event.
  starts(wanted) {
    const { rows: { time, action }, steps, actions } = this.run;
    const found = [];
    const code = actions.indexOf(wanted);
    if (wanted === "recompute") {
      for (let i = 0; i < steps.first.length; i++) if (steps.again[i]) found.push(time[steps.first[i]]);
    } else {
      for (let row = 0; row < action.length; row++) if (action[row] === code) found.push(time[row]);
    }
    return found;
  }

  stacked() {
    const { rows, layers, categories, end_ns } = this.run;
    const { start, end, scale, share } = this.reach;
    const bins = Math.max(Math.round((this.view.width * share) / POINTS_APART), 100);
    const shown = rowsInView(rows.time, rows.memory, start, end, bins);
    const count = shown.length + 1;
    const data = { x: new Float64Array(count), y0: new Float64Array(count) };
    for (let i = 0; i < shown.length; i++) data.x[i] = rows.time[shown[i]] / scale;
    data.x[count - 1] = Math.min(end, end_ns) / scale;
    const kinds = categories.length;
    for (let k = 0; k < kinds; k++) {
      const below = data[`y${k}`];
      const above = new Float64Array(count);
      for (let i = 0; i < shown.length; i++) above[i] = below[i] + layers[shown[i] * kinds + k];
      above[count - 1] = above[count - 2];
      data[`y${k + 1}`] = above;
    }
    return data;
  }

  barred() {
    const { start, end, scale, share } = this.reach;
    const width = (end - start) / share / STRIP_BINS;
    const data = { left: [], right: [], bottom: [], top: [] };
    this.strips.forEach(([, starts], k) => {
      const counts = new Map();
      for (let i = lowestRow(starts, start); i < starts.length && starts[i] <= end; i++) {
        const bin = Math.floor(starts[i] / width);
        counts.set(bin, (counts.get(bin) ?? 0) + 1);
      }
      const most = Math.max(...counts.values(), 1);
      for (const [bin, count] of counts) {
        data.left.push((bin * width) / scale);
        data.right.push(((bin + 0.8) * width) / scale);
        data.bottom.push(this.stripBase(k));
        data.top.push(this.stripBase(k) + (0.25 + (0.75 * count) / most) * STRIP * this.top);
      }
    });
    return data;
  }

  stripBase(k) {
    return -(k + 1) * STRIP * 1.3 * this.top;
  }

  draw() {
    const figure = makePlot({
      height: 380,
      min_border_left: axisWidth(),
      x_range: this.x_range,
      y_range: model("Range1d", { start: this.stripBase(this.strips.length - 1) - 0.01 * this.top, end: this.top }),
      xLabel: `time (${this.view.unit})`,
      ...this.heights(),
    });
    this.view.addTools(figure);
    this.run.categories.forEach((category, k) => {
      addGlyph(figure, model("VAreaStep", {
        x: { field: "x" }, y1: { field: `y${k}` }, y2: { field: `y${k + 1}` },
        step_mode: "after", fill_color: color(category), fill_alpha: 1,
      }), this.areas);
    });
    addGlyph(figure, model("Quad", {
      left: { field: "left" }, right: { field: "right" }, bottom: { field: "bottom" }, top: { field: "top" },
      fill_color: color("ink"), line_color: null,
    }), this.bars);
    if (this.showsBudget) {
      figure.add_layout(model("Span", {
        location: this.run.budget, dimension: "width", line_color: color("ink"), line_dash: [6, 3],
      }));
    }
    figure.add_layout(this.view.cursor("timeline"));
    return figure;
  }

  // Ticks of memory, with lines across, and below them the names of the strips.
  heights() {
    const [size, unit] = unitOf(this.top, BYTE_UNITS);
    const ticks = roundTicks(this.top / size).map((tick) => tick * size);
    const middles = this.strips.map((_, k) => this.stripBase(k) + 0.5 * STRIP * this.top);
    const labels = [...ticks.map((tick) => String(Number((tick / size).toPrecision(6)))), ...this.strips.map(([label]) => label)];
    return { yLabel: `memory (${unit})`, yTicks: { places: [...ticks, ...middles], labels }, grid: ticks };
  }

  update() {
    if (this.view.isWithin(this.x_range, this.reach)) return;
    this.reach = this.view.reach(this.x_range);
    this.areas.data = this.stacked();
    this.bars.data = this.barred();
  }
}

// The window of time that the charts of one run share. The chart under the hand moves at once, the
// others follow when it rests.
class View {
  constructor(end, width) {
    this.end = end || 1;
    this.width = width;
    [this.scale, this.unit] = unitOf(this.end, TIME_UNITS);
    this.charts = new Map();
    this.cursors = new Map();
    this.at = 0;
  }

  get first() {
    return this.charts.values().next().value;
  }

  range() {
    const end = this.end / this.scale;
    return model("Range1d", { start: 0, end, bounds: [0, end], min_interval: end / 1e6 });
  }

  window(range) {
    return { start: range.start * this.scale, end: range.end * this.scale, scale: this.scale };
  }

  // A window with its margins, and how many windows it is.
  reach(range) {
    const { start, end, scale } = this.window(range);
    const margin = MARGIN * (end - start);
    const [from, to] = [Math.max(start - margin, 0), Math.min(end + margin, this.end)];
    return { start: from, end: to, scale, window: end - start, share: (to - from) / (end - start) };
  }

  isWithin(range, reach) {
    const { start, end } = this.window(range);
    const isAsWide = Math.abs((end - start) / reach.window - 1) < 1e-6;
    return isAsWide && start >= reach.start && end <= reach.end;
  }

  // A chart that is drawn anew takes the place of the one before.
  add(key, range, update) {
    const chart = { range, update };
    this.charts.set(key, chart);
    range.connect(range.change, () => this.moved(chart));
  }

  moved(chart) {
    if (this.isFollowing) return;
    chart.update();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.follow(chart), 120);
  }

  follow(leader) {
    this.isFollowing = true;
    for (const chart of this.charts.values()) {
      if (chart === leader) continue;
      chart.range.setv({ start: leader.range.start, end: leader.range.end });
      chart.update();
    }
    this.isFollowing = false;
  }

  // Zoom around the cursor, if it is in view, and move by parts of the window.
  zoom(factor) {
    const { start, end } = this.first.range;
    const at = this.at / this.scale;
    const center = at > start && at < end ? at : (start + end) / 2;
    this.show(center - (center - start) * factor, center + (end - center) * factor);
  }

  pan(part) {
    const { start, end } = this.first.range;
    const by = part * (end - start);
    const most = this.end / this.scale;
    const shift = Math.min(Math.max(by, -start), most - end);
    this.show(start + shift, end + shift);
  }

  show(start, end) {
    const most = this.end / this.scale;
    this.first.range.setv({ start: Math.max(start, 0), end: Math.min(end, most) });
  }

  addTools(figure) {
    const pan = model("PanTool", { dimensions: "width" });
    const zoom = model("WheelZoomTool", { dimensions: "width", speed: 1 / 400 });
    figure.add_tools(pan, zoom);
    figure.toolbar.active_drag = pan;
    figure.toolbar.active_scroll = zoom;
  }

  cursor(key) {
    const made = model("Span", { location: this.at / this.scale, dimension: "height", line_color: color("accent"), line_width: 1.5 });
    this.cursors.set(key, made);
    return made;
  }

  // Say which time is looked at, and bring it into view where that is asked for.
  mark(time, isBrought) {
    this.at = time;
    for (const cursor of this.cursors.values()) cursor.location = time / this.scale;
    if (!isBrought || !this.first) return;
    const { start, end } = this.first.range;
    const at = time / this.scale;
    if (at < start || at > end) this.show(at - (end - start) / 2, at + (end - start) / 2);
  }
}
