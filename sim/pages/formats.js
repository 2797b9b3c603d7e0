// Numbers for a reader, to the letter as the command line writes them (texts.py).

const NONE = "-";

// Round as Python does: what lies in the middle goes to the even digit.
function fixed(value, digits) {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  const isTie = scaled - below === 0.5 && below % 2 === 0;
  return (isTie ? below / 10 ** digits : value).toFixed(digits);
}

function withUnit(value, units) {
  const [size, unit] = units.find(([least]) => value >= least) ?? [1, units.at(-1)[1]];
  return size === 1 ? `${value} ${unit}` : `${fixed(value / size, 2)} ${unit}`;
}

const BYTE_UNITS = ["PiB", "TiB", "GiB", "MiB", "KiB", "B"].map((u, i) => [1024 ** (5 - i), u]);
const TIME_UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

const COUNTS = new Intl.NumberFormat("en-US");

const FORMATS = {
  text: (value) => value,
  bytes: (value) => withUnit(value, BYTE_UNITS),
  ns: (value) => withUnit(value, TIME_UNITS),
  count: (value) => COUNTS.format(value),
  ratio: (value) => fixed(value, 4),
  number: (value) => String(Number(value.toPrecision(6))),
  share: (value) => `${fixed(value * 100, 1)}%`,
};

function isNone(value) {
  return value === null || value === undefined || value === "" || Number.isNaN(value);
}

function formatted(kind, value) {
  return isNone(value) ? NONE : FORMATS[kind](value);
}
