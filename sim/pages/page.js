// The page: a section for each file, charts drawn when they come into view, tables below them.

const VISIBLE = 0.002; // of the most memory: what is less is in no legend
const FIELDS = ["module", "category", "operator", "storages"];
const HELP = "Drag to move, wheel or pinch to zoom, click for what is in memory then. "
  + "With the keyboard: arrows move, + and - zoom, 0 shows all, comma and period step.";

// What two quick clicks do is what each of them does.
function onClick(figure, act) {
  figure.on_event("tap", act);
  figure.on_event("doubletap", act);
}

// Draw into an element when it is about to be seen, and again when the colors change.
function drawn(element, make) {
  const draw = async () => {
    element.isDrawn = true;
    element.view?.remove();
    element.replaceChildren();
    element.chart = make();
    element.view = await showPlot(element.chart.figure, element);
    keepFontSize(element.view);
    keepFocusOut(element);
    element.dataset.drawn = "yes";
    performance.mark("chart-drawn");
  };
  const seen = new IntersectionObserver((entries) => {
    if (element.isDrawn || !entries.some((entry) => entry.isIntersecting)) return;
    draw();
  }, { rootMargin: "200px" });
  seen.observe(element);
  window.addEventListener("beforeprint", () => { if (!element.isDrawn) draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (element.isDrawn) draw(); });
  return element;
}

function button(label, title, act) {
  return el("button", { type: "button", title, "aria-label": title, on: { click: act } }, label);
}

class RunSection {
  constructor(section, texts) {
    this.section = section;
    this.texts = texts;
    this.run = new Run(section.chart, texts);
    this.field = "module";
    this.at = this.run.find("peak");
    this.told = el("h3", { "aria-live": "polite" });
    this.live = el("div", { class: "live" });
    this.element = this.build();
    this.show(this.at);
  }

  build() {
    const { run, section } = this;
    const blocks = [el("h2", {}, name(section.title)), factList(section.facts)];
    if (run.count) {
      this.view = new View(run.end_ns, Math.min(document.documentElement.clientWidth - 100, 1100));
      blocks.push(this.timeline());
    }
    if (run.stays) blocks.push(this.addresses());
    const go = (event) => this.show(run.atRow(event), true);
    blocks.push(...section.tables.map((table) => new SortedTable(table, this.texts, go).element));
    blocks.push(provenance("What was run", section.provenance));
    return el("section", { class: "file run" }, ...blocks);
  }

  timeline() {
    const make = () => this.listening(new Timeline(this.run, this.view));
    this.chart = drawn(el("div", {
      class: "chart timeline", tabindex: "0", role: "application", "aria-label": `memory over time. ${HELP}`,
      on: { keydown: (event) => this.key(event) },
    }), make);
    return el("section", { class: "figure" },
      el("h3", {}, "Memory over time"), this.legend(), this.chart, this.tools(),
      el("p", { class: "quiet help" }, HELP),
      el("section", { class: "instant" }, el("header", {}, this.told, this.choice()), this.live));
  }

  legend() {
    const least = VISIBLE * this.run.highest;
    const used = this.run.categories.filter((_, k) => this.run.most[k] > least);
    const keys = used.reverse().map((category) =>
      el("li", {}, swatch(`var(--${category})`), CATEGORY_LABELS[category]));
    const { budget } = this.run;
    if (budget !== null) keys.push(el("li", {}, swatch("var(--ink)", true), `budget ${formatted("bytes", budget)}`));
    return el("ul", { class: "legend" }, ...keys);
  }

  tools() {
    const { view } = this;
    this.input = el("input", { type: "text", value: "peak", size: "12", "aria-label": "instant: peak, end, a time such as 1.5ms, or a call's number" });
    const ask = (event) => {
      event.preventDefault();
      const found = this.run.find(this.input.value);
      this.input.setCustomValidity(found ? "" : "peak, end, a time of the run such as 1.5ms, or a call's number");
      if (found) this.show(found, true);
      else this.input.reportValidity();
    };
    const at = (text) => () => { this.input.value = text; this.show(this.run.find(text), true); };
    return el("div", { class: "tools" },
      el("span", { class: "group" },
        button("−", "zoom out", () => view.zoom(2)), button("+", "zoom in", () => view.zoom(0.5)),
        button("‹", "earlier", () => view.pan(-0.5)), button("›", "later", () => view.pan(0.5)),
        button("all", "show the whole run", () => view.show(0, Infinity))),
      el("form", { class: "group", on: { submit: ask, input: () => this.input.setCustomValidity("") } },
        this.input, el("button", { type: "submit" }, "show"),
        button("peak", "show the peak", at("peak")), button("end", "show the end", at("end"))));
  }

  choice() {
    const select = el("select", { "aria-label": "sum what is in memory by", on: { change: (event) => {
      this.field = event.target.value;
      this.show(this.at);
    } } }, ...FIELDS.map((field) => el("option", { value: field }, field === "storages" ? "each storage" : `by ${field}`)));
    return select;
  }

  listening(chart) {
    onClick(chart.figure, ({ x }) => {
      const found = this.run.atTime(Math.max(x * this.view.scale, 0));
      if (found) this.show(found);
    });
    return chart;
  }

  addresses() {
    const told = el("p", { class: "quiet", role: "status" }, "Blank is free. Click: who lies there.");
    const make = () => {
      const chart = this.listening(new AddressMap(this.run, this.view));
      onClick(chart.figure, ({ x, y }) => {
        const storage = chart.storageAt(x * this.view.scale, y);
        const who = storage === null ? "free" : `${this.run.storageNames[storage]}, ${formatted("bytes", this.run.storages.bytes[storage])}, ${this.run.labelOf(storage, "module")}`;
        told.replaceChildren(name(`${formatted("ns", Math.round(x * this.view.scale))}, address ${formatted("bytes", Math.round(y))}: ${who}`));
      });
      return chart;
    };
    return el("section", { class: "figure" },
      el("h3", {}, "Addresses"), drawn(el("div", { class: "chart addresses" }), make), told);
  }

  show(at, isBrought = false) {
    if (!at) return;
    this.at = at;
    const live = this.run.live(at);
    const running = live.running ? [", in ", name(live.running)] : [];
    const parts = [["workspace", live.workspace], ["second copies", live.copies]]
      .filter(([, bytes]) => bytes).map(([what, bytes]) => `; ${formatted("bytes", bytes)} of it ${what}`);
    this.told.replaceChildren(`In memory at ${formatted("ns", live.time)}`, ...running, `: ${formatted("bytes", live.total)}`, ...parts);
    const table = this.field === "storages" ? liveStorages(this.run, live) : liveTable(this.run, live, this.field);
    this.live.replaceChildren(new SortedTable({ ...table, title: `what is in memory, ${this.field}` }, this.texts).element);
    this.view?.mark(live.time, isBrought);
  }

  key(event) {
    const { view } = this;
    const keys = {
      ArrowLeft: () => view.pan(-0.1), ArrowRight: () => view.pan(0.1),
      "+": () => view.zoom(0.5), "=": () => view.zoom(0.5), "-": () => view.zoom(2), 0: () => view.show(0, Infinity),
      ",": () => this.step(-1), ".": () => this.step(1),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  // To the call before or after the one that is shown.
  step(by) {
    const step = Math.min(Math.max(this.run.stepAt(this.at.row) + by, 0), this.run.steps.first.length - 1);
    this.show({ row: this.run.steps.last[step], step }, true);
  }
}

function tableSection(section, texts) {
  const { traces } = section.chart;
  const panels = traces.map((trace) => {
    const told = el("p", { class: "quiet told", role: "status" });
    const chart = drawn(el("div", { class: "chart curves" }), () => {
      const made = new Curves(trace, (text) => told.replaceChildren(name(text)));
      hidden.forEach((line) => made.show(line, false));
      return made;
    });
    return { chart, element: el("section", { class: "panel" },
      el("h4", {}, name(trace.name), " ", el("span", { class: "quiet" }, trace.note)), chart, told) };
  });
  const hidden = new Set();
  const toggle = (line, pressed) => {
    if (pressed) hidden.delete(line);
    else hidden.add(line);
    panels.forEach(({ chart }) => chart.chart?.show(line, pressed));
  };
  return el("section", { class: "file table" },
    el("h2", {}, name(section.title)), factList(section.facts),
    el("section", { class: "figure" },
      el("h3", {}, "Slowdown against budget"), curveLegend(traces, toggle),
      el("div", { class: "panels" }, ...panels.map(({ element }) => element))),
    ...section.tables.map((table) => new SortedTable(table, texts).element),
    provenance("What was run", section.provenance));
}

// The lines, each a button that hides it, and what the marks mean.
function curveLegend(traces, toggle) {
  const lines = new Map(traces.flatMap((trace) => trace.lines).map((line) => [line.name, line]));
  const keys = [...lines.values()].map((line) => {
    const key = el("button", { type: "button", "aria-pressed": "true", on: { click: () => {
      const pressed = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", String(pressed));
      toggle(line.name, pressed);
    } } }, swatch(line.color === "#000000" ? "var(--ink)" : `color-mix(in srgb, ${line.color}, white var(--lift))`), name(line.name), line.is_planned ? " (plan)" : "");
    return el("li", {}, key);
  });
  const failures = new Set(traces.flatMap((trace) => trace.lines).flatMap((line) => line.failure));
  const signs = { oom: "×", thrashed: "○", infeasible: "□", no_plan: "–", refused: "△" };
  for (const [failure, [, meaning]] of Object.entries(FAILURES)) {
    if (failures.has(failure)) keys.push(el("li", { class: "quiet" }, `${signs[failure]} ${meaning}`));
  }
  if (traces.some((trace) => trace.bounds.fraction.length)) {
    const without = traces.some((trace) => trace.moves) ? " without a link" : "";
    keys.push(el("li", { class: "quiet" }, swatch("var(--shade)"), `below the lower bound: impossible${without}`));
  }
  return el("ul", { class: "legend" }, ...keys);
}

function provenance(title, facts) {
  return el("details", {}, el("summary", {}, title), factList(facts));
}

function glossary(terms) {
  const rows = terms.map(([term, meaning]) => el("div", {}, el("dt", {}, term), el("dd", {}, meaning)));
  return el("details", { class: "glossary" }, el("summary", {}, "Glossary"), el("dl", { class: "facts" }, ...rows));
}

async function main() {
  const report = await unpack();
  Bokeh.logger.set_level("error");
  lessWork();
  const root = document.getElementById("report");
  root.append(el("header", {}, el("h1", {}, "rematsim report"), el("p", { class: "quiet" }, name(report.title))));
  for (const section of report.sections) {
    root.append(section.kind === "run" ? new RunSection(section, report.texts).element : tableSection(section, report.texts));
  }
  root.append(glossary(report.glossary), provenance("What this report was made of", report.provenance));
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  document.documentElement.dataset.ready = "yes";
  performance.mark("report-ready");
}

main();
