// A run and what was in memory at an instant of it: the same as `rematsim explain --at` (live.py).

const TIME_PATTERN = /^(\d{1,20}(?:\.\d{1,20})?)\s*(ns|us|µs|ms|s)$/;
const TIME_SIZES = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };

// How many of ascending values are at most a limit.
function upTo(values, limit) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

class Run {
  constructor(chart, texts) {
    Object.assign(this, chart);
    this.callNames = texts[chart.calls];
    this.storageNames = texts[chart.storages.names];
    this.count = this.rows.time.length;
    this.highest = Math.max(this.count ? this.rows.memory[this.peak_row] : 0, 1);
    this.changes = this.rows.memory.slice();
    for (let i = 1; i < this.count; i++) this.changes[i] -= this.rows.memory[i - 1];
    this.byCategory();
  }

  // Bytes of each category after each row, row by row, and the most of each. One plain loop: the log
  // is long, and is read before any of this is fast code.
  byCategory() {
    const { count, changes, rows: { storage }, storages: { category } } = this;
    const kinds = this.categories.length;
    const sums = new Float64Array(kinds);
    this.layers = new Float64Array(kinds * count);
    this.most = new Float64Array(kinds);
    for (let row = 0; row < count; row++) {
      if (storage[row] >= 0) {
        const kind = category[storage[row]];
        const sum = sums[kind] + changes[row];
        sums[kind] = sum;
        if (sum > this.most[kind]) this.most[kind] = sum;
      }
      this.layers.set(sums, row * kinds);
    }
  }

  stepAt(row) {
    return upTo(this.steps.first, row) - 1;
  }

  // The row of the log and the step under way at what was asked for; null where there is none.
  find(text) {
    const asked = text.trim();
    if (!this.count) return null;
    if (asked === "peak") return this.atRow(this.peak_row);
    if (asked === "end") return { row: this.count - 1, step: -1 };
    if (/^\d+$/.test(asked)) return this.atCall(asked);
    const read = TIME_PATTERN.exec(asked);
    return read ? this.atTime(Number(read[1]) * TIME_SIZES[read[2]]) : null;
  }

  atRow(row) {
    const step = this.stepAt(row);
    return { row, step: step >= 0 && this.steps.last[step] === row ? step : -1 };
  }

  atCall(number) {
    const call = this.callNames.findIndex((text) => `${text} `.startsWith(`call ${Number(number)} `));
    const step = call < 0 ? -1 : this.steps.call.indexOf(call);
    return step < 0 ? null : { row: this.steps.last[step], step };
  }

  atTime(time) {
    const row = upTo(this.rows.time, time) - 1;
    if (row < 0 || time > this.end_ns) return null;
    const step = this.stepAt(row);
    return { row, step: step >= 0 && this.steps.end[step] > time ? step : -1 };
  }

  timeOf({ row, step }) {
    return this.rows.time[step >= 0 ? this.steps.first[step] : row];
  }

  // What is in memory: each storage with its bytes, the largest first, and what else there is.
  live({ row, step }) {
    const held = new Float64Array(this.storages.bytes.length);
    const isAgain = new Uint8Array(held.length);
    const recompute = this.actions.indexOf("recompute");
    for (let i = 0; i <= row; i++) {
      const storage = this.rows.storage[i];
      if (storage < 0) continue;
      held[storage] += this.changes[i];
      if (this.rows.placed[i]) isAgain[storage] = Number(this.rows.action[i] === recompute);
    }
    const found = [];
    let copies = 0;
    for (let storage = 0; storage < held.length; storage++) {
      const size = this.storages.bytes[storage];
      copies += Math.max(held[storage] - size, 0);
      const bytes = Math.min(held[storage], size);
      if (bytes) found.push({ storage, bytes, isAgain: isAgain[storage] === 1 });
    }
    found.sort((a, b) => b.bytes - a.bytes || a.storage - b.storage);
    const workspace = step >= 0 ? this.steps.workspace[step] : 0;
    return {
      time: this.timeOf({ row, step }),
      running: step >= 0 ? this.callNames[this.steps.call[step]] : "",
      total: this.rows.memory[row] + workspace,
      workspace,
      copies,
      storages: found,
    };
  }

  labelOf(storage, field) {
    const code = this.storages[field][storage];
    return field === "category" ? this.categories[code] : this.storages[`${field}s`][code];
  }
}

// Tables of a live set: by module, category or operator, and the storages themselves.
function liveTable(run, live, field) {
  const sums = new Map();
  for (const { storage, bytes, isAgain } of live.storages) {
    const label = run.labelOf(storage, field);
    const sum = sums.get(label) ?? { bytes: 0, again: 0, count: 0 };
    sum.bytes += bytes;
    sum.again += isAgain ? bytes : 0;
    sum.count += 1;
    sums.set(label, sum);
  }
  const rows = [...sums].sort(([a, x], [b, y]) => y.bytes - x.bytes || compare(a, b, false));
  const column = (title, kind, value) => ({ title, kind, values: rows.map(value) });
  return {
    key: "live",
    title: `In memory by ${field}`,
    note: "",
    columns: [
      column(field, "text", ([label]) => label),
      column("bytes", "bytes", ([, sum]) => sum.bytes),
      column("share", "share", ([, sum]) => sum.bytes / live.total),
      column("recomputed", "bytes", ([, sum]) => sum.again || null),
      column("storages", "count", ([, sum]) => sum.count),
    ],
    rows_in_all: rows.length,
    events: null,
  };
}

function liveStorages(run, live) {
  const column = (title, kind, value) => ({ title, kind, values: live.storages.map(value) });
  const field = (label) => ({ storage }) => run.labelOf(storage, label);
  return {
    key: "live",
    title: "Storages in memory",
    note: "",
    columns: [
      column("storage", "text", ({ storage }) => run.storageNames[storage]),
      column("bytes", "bytes", ({ bytes }) => bytes),
      column("category", "text", field("category")),
      column("module", "text", field("module")),
      column("operator", "text", field("operator")),
      column("data", "text", ({ isAgain }) => (isAgain ? "recomputed" : "original")),
    ],
    rows_in_all: live.storages.length,
    events: null,
  };
}
