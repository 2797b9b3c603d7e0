// Tables that sort by any column, can be searched, and show as many rows as are asked for.

const FIRST_ROWS = 10;
const MORE_ROWS = 100;

class SortedTable {
  constructor(table, texts, onEvent = null) {
    this.table = table;
    this.texts = texts;
    this.onEvent = onEvent;
    this.count = table.columns.length ? table.columns[0].values.length : 0;
    this.order = Array.from({ length: this.count }, (_, i) => i);
    this.sorted = { column: -1, isDown: false };
    this.shown = FIRST_ROWS;
    this.element = this.build();
    this.fill();
  }

  value(column, row) {
    const value = column.values[row];
    if (column.texts === undefined) return value;
    return value < 0 ? null : this.texts[column.texts][value];
  }

  build() {
    const { columns, title, note, key } = this.table;
    this.headers = columns.map((column, i) =>
      el("th", { scope: "col", class: column.kind },
        el("button", { type: "button", on: { click: () => this.sort(i) } }, name(column.title))));
    this.body = el("tbody");
    this.more = el("button", { type: "button", class: "more", on: { click: () => this.grow() } });
    this.told = el("span", { class: "quiet", role: "status" });
    this.search = el("input", {
      type: "search",
      placeholder: "search",
      "aria-label": `search in ${title}`,
      on: { input: () => this.find() },
    });
    const hasSearch = this.count > FIRST_ROWS && columns.some((c) => c.kind === "text");
    return el("section", { class: "table", data: { key } },
      el("header", {}, el("h3", {}, title), hasSearch ? this.search : null),
      note ? el("p", { class: "quiet" }, note) : null,
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
        el("table", {}, el("thead", {}, el("tr", {}, ...this.headers)), this.body)),
      el("footer", {}, this.told, this.more));
  }

  fill() {
    const rows = this.order.slice(0, this.shown).map((row) => this.row(row));
    this.body.replaceChildren(...rows);
    const left = this.order.length - rows.length;
    this.more.hidden = left <= 0;
    this.more.textContent = `show ${FORMATS.count(Math.min(left, MORE_ROWS))} more`;
    const cut = this.table.rows_in_all - this.count;
    const all = `${FORMATS.count(this.order.length)} rows`;
    const kept = cut > 0 ? `; ${FORMATS.count(cut)} more are not in this file` : "";
    this.told.textContent = left > 0 || cut > 0 ? `${FORMATS.count(rows.length)} of ${all}${kept}` : "";
  }

  row(row) {
    const cells = this.table.columns.map((column, i) => {
      const text = formatted(column.kind, this.value(column, row));
      const cell = el("td", { class: column.kind });
      if (i === 0 && this.onEvent !== null && this.table.events !== null) {
        const go = () => this.onEvent(this.table.events[row]);
        cell.append(el("button", { type: "button", class: "link", on: { click: go } }, text));
      } else {
        cell.append(name(text));
      }
      return cell;
    });
    return el("tr", {}, ...cells);
  }

  grow() {
    this.shown += MORE_ROWS;
    this.fill();
  }

  find() {
    const wanted = this.search.value.toLowerCase();
    const texts = this.table.columns.filter((column) => column.kind === "text");
    const has = (row) => texts.some((c) => String(this.value(c, row) ?? "").toLowerCase().includes(wanted));
    this.order = Array.from({ length: this.count }, (_, i) => i).filter((row) => !wanted || has(row));
    this.arrange();
  }

  // Numbers begin with the largest, texts with the first letter; a second click turns them round.
  sort(i) {
    const isText = this.table.columns[i].kind === "text";
    const isDown = this.sorted.column === i ? !this.sorted.isDown : !isText;
    this.sorted = { column: i, isDown };
    this.headers.forEach((header, j) => {
      if (i === j) header.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    this.arrange();
  }

  arrange() {
    const { column: i, isDown } = this.sorted;
    if (i >= 0) {
      const column = this.table.columns[i];
      const keys = new Map(this.order.map((row) => [row, this.value(column, row)]));
      this.order.sort((a, b) => compare(keys.get(a), keys.get(b), isDown) || a - b);
    }
    this.fill();
  }
}

// What has no value is last, whichever way.
function compare(a, b, isDown) {
  if (isNone(a) || isNone(b)) return isNone(a) - isNone(b);
  const order = a < b ? -1 : Number(a > b);
  return isDown ? -order : order;
}
