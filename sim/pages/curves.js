// Slowdown against budget: a panel a trace, a line a method, what lies below the bounds shaded.
// Failures stand over the plot, a row per line; budgets that are unlimited stand at its right.

const MARKERS = {
  o: "circle", s: "square", "^": "triangle", v: "inverted_triangle", D: "diamond", P: "plus",
  "<": "triangle", ">": "triangle", "*": "star", p: "hex", h: "hex", d: "diamond",
};
const FAILURES = {
  oom: ["x", "out of memory"],
  thrashed: ["circle", "thrashed"],
  infeasible: ["square", "infeasible"],
  no_plan: ["dash", "no plan found"],
  refused: ["triangle", "plan refused"],
};
const LOG_FROM = 4;
const LOG_TICKS = [1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000];
const NEAR = 0.04; // parts of the plot

// Colors are those of a white page: black ones are the ink of this one, and on a dark one all are
// lifted.
function lineColor(line) {
  if (line.color === "#000000") return color("ink");
  const lift = Number.parseFloat(color("lift")) / 100;
  const parts = [1, 3, 5].map((at) => Number.parseInt(line.color.slice(at, at + 2), 16));
  return `rgb(${parts.map((part) => Math.round(part + lift * (255 - part))).join(", ")})`;
}

class Curves {
  constructor(trace, tell) {
    this.trace = trace;
    this.tell = tell;
    this.parts = new Map(trace.lines.map((line) => [line.name, []]));
    const medians = trace.lines.flatMap((line) => line.median).filter((value) => value !== null);
    const fractions = trace.lines.flatMap((line) => line.fraction).filter((value) => value !== null);
    const most = Math.max(...medians, 1);
    this.isLog = most > LOG_FROM;
    this.most = Math.max(most, 1.05);
    this.right = Math.max(...fractions, 0);
    this.left = Math.min(...fractions, this.right);
    const width = this.right - this.left || 0.1;
    this.hasUnlimited = trace.lines.some((line) => line.fraction.includes(null));
    this.unlimited = this.right + 0.1 * width;
    this.margin = 0.04 * width;
    this.failing = trace.lines.filter((line) => line.failure.some((failure) => failure));
    this.points = trace.lines.flatMap((line) => this.pointsOf(line));
    this.figure = this.draw();
  }

  // A height over the highest slowdown, in parts of the plot.
  above(part) {
    return this.isLog ? this.most * (this.most ** part) : this.most + part * (this.most - 1);
  }

  pointsOf(line) {
    const failed = this.failing.indexOf(line);
    return line.fraction.map((fraction, i) => ({
      line,
      i,
      x: fraction ?? this.unlimited,
      isUnlimited: fraction === null,
      y: line.median[i] ?? this.above(0.08 + 0.07 * failed),
      isFailure: line.median[i] === null,
    }));
  }

  draw() {
    const top = this.above(0.08 + 0.07 * this.failing.length);
    const right = this.hasUnlimited ? this.unlimited : this.right;
    const figure = makePlot({
      height: 300,
      x_range: model("Range1d", { start: this.left - this.margin, end: right + this.margin }),
      y_range: model("Range1d", { start: this.isLog ? 0.98 : this.above(-1.02), end: top }),
      isLog: this.isLog,
      ...this.labels(right),
    });
    this.shade(figure);
    for (const line of this.trace.lines) this.drawLine(figure, line);
    figure.on_event("mousemove", (event) => this.hover(event));
    figure.on_event("tap", (event) => this.hover(event));
    return figure;
  }

  labels(right) {
    const ticks = roundTicks(this.right, [1, 2, 2.5, 5], this.left);
    const unlimited = this.hasUnlimited ? [right] : [];
    const heights = this.isLog
      ? LOG_TICKS.filter((tick) => tick <= this.most)
      : roundTicks(this.most - 1).map((tick) => 1 + tick);
    const short = (tick) => String(Number(tick.toPrecision(4)));
    return {
      xLabel: "budget / unlimited peak",
      yLabel: "slowdown",
      xTicks: { places: [...ticks, ...unlimited], labels: [...ticks.map(short), ...unlimited.map(() => "∞")] },
      yTicks: { places: heights, labels: heights.map(short) },
    };
  }

  // What is below the bounds; each holds for its budget and for every smaller one.
  shade(figure) {
    const { fraction, bound } = this.trace.bounds;
    if (!fraction.length) return;
    const x = [this.left - this.margin, ...fraction];
    const y2 = [bound[0], ...bound].map((value) => Math.min(value, this.above(0)));
    const y1 = y2.map(() => 0.5);
    addData(figure, "VAreaStep", { x, y1, y2 }, { step_mode: "before", fill_color: color("shade"), fill_alpha: 1 });
    addData(figure, "Step", { x, y: y2 }, { mode: "before", line_color: color("quiet"), line_width: 1 });
  }

  drawLine(figure, line) {
    const points = this.points.filter((point) => point.line === line);
    const look = lineColor(line);
    const marker = MARKERS[line.marker] ?? "circle";
    const add = (kind, data, looks) => this.parts.get(line.name).push(addData(figure, kind, data, looks));
    const limited = points.filter((point) => !point.isUnlimited);
    add("Line", {
      x: limited.map((point) => point.x),
      y: limited.map((point) => (point.isFailure ? NaN : point.y)),
    }, { line_color: look, line_width: 1.6, line_dash: line.is_planned ? [5, 3] : [] });
    const ended = points.filter((point) => !point.isFailure);
    add("Scatter", { x: ended.map((point) => point.x), y: ended.map((point) => point.y) }, {
      marker: { value: marker }, size: 6, line_color: look, fill_color: line.is_hollow ? color("page") : look,
    });
    const spread = ended.filter(({ i }) => line.high[i] > line.low[i]);
    add("Segment", {
      x0: spread.map((p) => p.x), x1: spread.map((p) => p.x),
      y0: spread.map((p) => line.low[p.i]), y1: spread.map((p) => line.high[p.i]),
    }, { line_color: look });
    for (const [failure, [mark]] of Object.entries(FAILURES)) {
      const failed = points.filter((p) => p.isFailure && line.failure[p.i] === failure);
      if (!failed.length) continue;
      add("Scatter", { x: failed.map((p) => p.x), y: failed.map((p) => p.y) }, {
        marker: { value: mark }, size: 7, line_color: look, fill_color: null,
      });
    }
  }

  // Name the point that is nearest.
  hover({ x, y }) {
    const [width, height] = [this.figure.x_range, this.figure.y_range].map((r) => r.end - r.start);
    const away = (p) => Math.hypot((p.x - x) / width, (p.y - y) / height);
    const near = this.points.reduce((best, p) => (best === null || away(p) < away(best) ? p : best), null);
    this.tell(near !== null && away(near) < NEAR ? this.told(near) : "");
  }

  told({ line, i, isFailure }) {
    const fraction = line.fraction[i];
    const budget = fraction === null ? "no budget" : `budget ${formatted("number", fraction)} (${formatted("bytes", line.bytes[i])})`;
    const ended = isFailure ? FAILURES[line.failure[i]]?.[1] ?? line.failure[i] : `slowdown ${formatted("ratio", line.median[i])}`;
    return `${line.name}: ${budget}, ${ended}${line.is_optimal[i] ? ", proven optimal" : ""}`;
  }

  show(lineName, isShown) {
    for (const glyph of this.parts.get(lineName) ?? []) glyph.visible = isShown;
  }
}
