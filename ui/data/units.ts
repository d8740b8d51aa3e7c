// Numbers as people read them: SI prefixes for rates, counts and bits, IEC for bytes that are a
// size; one scale a column or graph.

/** How a column of numbers of one unit is shown. */
export interface Scale {
  /** Shown = value * times. */
  times: number;
  /** The unit as shown: "MB/s", "GiB", "%", "ms". May be "". */
  unit: string;
  /** Decimals of the column. */
  decimals: number;
}

/** Which unit bytes per second are shown in. */
export type Wire = "byte" | "bit";

const si: readonly [number, string][] = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];
const iec: readonly [number, string][] = [
  [2 ** 50, "Pi"],
  [2 ** 40, "Ti"],
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
  [1, ""],
];
const time: readonly [number, string][] = [
  [3.6e12, "h"],
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A size above 0 as it is shown: three digits that count, and all digits before the point. */
const rounded = (size: number): number =>
  size >= 100 ? Math.round(size) : Number(size.toPrecision(3));

/**
 * The largest entry that a size reaches when it is rounded as it is shown: 999.6 M is 1.00 G, never
 * 1000 M. The entries are in descending order; the last one is for all smaller sizes.
 */
function prefix(list: readonly [number, string][], v: number): [number, string] {
  for (let i = 0; i < list.length - 1; i++) {
    const [size] = list[i]!;
    const [smaller] = list[i + 1]!;
    if (rounded(v / smaller) >= size / smaller) return list[i]!;
  }
  return list[list.length - 1]!;
}

/** Three digits that count: 7.36, 73.6, 736. */
function decimalsFor(size: number): number {
  if (!(size > 0)) return 0;
  const shown = rounded(size);
  if (shown >= 100) return 0;
  if (shown >= 10) return 1;
  if (shown >= 1) return 2;
  return Math.min(6, 2 - Math.floor(Math.log10(shown)));
}

/** The scale that suits the greatest (by size) of the values that stand together. */
export function scaleFor(unit: string, greatest: number, wire: Wire = "byte"): Scale {
  let v = Math.abs(greatest);
  if (!Number.isFinite(v)) v = 0;
  let times = 1;
  let shown = unit;
  switch (unit) {
    case "B": {
      const [by, name] = prefix(iec, v);
      times = 1 / by;
      shown = `${name}B`;
      break;
    }
    case "B/s":
    case "bit/s": {
      const bits = unit === "bit/s" || wire === "bit";
      const base = unit === "B/s" && bits ? 8 : 1;
      const [by, name] = prefix(si, v * base);
      times = base / by;
      shown = name + (bits ? "bit/s" : "B/s");
      break;
    }
    case "ns": {
      const [by, name] = prefix(time, v);
      times = 1 / by;
      shown = name;
      break;
    }
    case "ratio":
      times = 100;
      shown = "%";
      break;
    default: {
      const [by, name] = prefix(si, v);
      times = 1 / by;
      const base = unit === "1" ? "" : unit === "1/s" ? "/s" : unit;
      // "12.3 k event/s": a prefix and a word are two words, but "MHz" is one.
      shown =
        name === ""
          ? base
          : base === "" || base === "/s" || base === "Hz"
            ? name + base
            : `${name} ${base}`;
    }
  }
  // A share of many CPUs beside one of a hundredth: a digit behind the point stays.
  const one = unit === "ratio" && rounded(v * times) >= 100;
  return { times, unit: shown, decimals: one ? 1 : decimalsFor(v * times) };
}

const minus = "\u2212";

/**
 * A value in a scale, without its unit. "–" is unknown; "0" is a measured zero, and a value too
 * small for the column is "<0.01".
 */
export function show(v: number, s: Scale): string {
  if (Number.isNaN(v)) return "–";
  if (v === 0) return "0";
  const shown = v * s.times;
  const size = Math.abs(shown);
  const sign = shown < 0 ? minus : "";
  if (!Number.isFinite(size)) return `${sign}∞`;
  const least = 10 ** -s.decimals;
  if (size < least / 2) return (sign ? `>${minus}` : "<") + least.toFixed(s.decimals);
  if (size >= 1e6) return sign + grouped(size.toFixed(0));
  return sign + (size >= 1e4 ? grouped(size.toFixed(s.decimals)) : size.toFixed(s.decimals));
}

/** A value with a scale of its own and its unit: "736 MB/s", "90.4 Mbit/s", "2.9 ms". */
export function humane(v: number, unit: string, wire: Wire = "byte"): string {
  if (Number.isNaN(v)) return "–";
  const s = scaleFor(unit, v, wire);
  const text = show(v, s);
  return s.unit === "" ? text : `${text} ${s.unit}`;
}

/** A value with a scale of its own in two parts: the number in three digits, and the unit. */
export function split(
  v: number,
  unit: string,
  wire: Wire = "byte",
): { number: string; unit: string } {
  if (Number.isNaN(v)) return { number: "–", unit: "" };
  const s = scaleFor(unit, v, wire);
  return { number: show(v, s), unit: v === 0 ? "" : s.unit };
}

/** The value as it came, with all its digits in groups, and its unit. */
export function raw(v: number, unit: string): string {
  if (Number.isNaN(v)) return "not measured";
  const text = digits(v);
  const name = unit === "1" ? "" : unit === "1/s" ? "per second" : unit;
  return name === "" ? text : `${text} ${name}`;
}

/**
 * The digits of a number that say something, never in powers of ten: all of a whole number, ten of
 * a fraction - no clock measures more -, and of a number of 32 bits the shortest that reads back as
 * the same.
 */
export function digits(v: number): string {
  if (Number.isNaN(v)) return "–";
  if (v === 0) return "0";
  const size = Math.abs(shortest(v));
  let text = String(size);
  if (text.includes("e"))
    text = size >= 1 ? BigInt(Math.round(size)).toString() : size.toFixed(20).replace(/0+$/, "");
  const [whole, part] = text.split(".");
  return (v < 0 ? minus : "") + grouped(whole!) + (part ? `.${part}` : "");
}

function shortest(v: number): number {
  if (Number.isInteger(v)) return v;
  if (Math.fround(v) === v) {
    for (let p = 6; p < 10; p++) {
      const short = Number(v.toPrecision(p));
      if (Math.fround(short) === v) return short;
    }
  }
  return Number(v.toPrecision(10));
}

function grouped(whole: string): string {
  const [n, part] = whole.split(".");
  const out = n!.length > 4 ? n!.replace(/\B(?=(\d{3})+$)/g, "\u202f") : n!;
  return part ? `${out}.${part}` : out;
}

/**
 * Marks of a value axis from 0 (or from below) to at least the greatest value, at round numbers of
 * the scale.
 */
export function marks(
  least: number,
  greatest: number,
  unit: string,
  s: Scale,
  about: number,
): { values: number[]; labels: string[] } {
  const span = (greatest - Math.min(0, least)) * s.times;
  if (!(span > 0)) return { values: [0], labels: ["0"] };
  const binary = unit === "B";
  const step = binary ? binaryStep(span / about) : roundStep(span / about);
  const values: number[] = [];
  const labels: string[] = [];
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  for (
    let i = Math.ceil((Math.min(0, least) * s.times) / step - 1e-9);
    i * step <= greatest * s.times * (1 + 1e-9);
    i++
  ) {
    values.push((i * step) / s.times);
    const size = Math.abs(i * step);
    labels.push(
      i === 0
        ? "0"
        : (i < 0 ? minus : "") +
            (binary ? String(Number(size.toPrecision(6))) : grouped(size.toFixed(decimals))),
    );
  }
  return { values, labels };
}

/** The unit at the end of a logarithmic axis, whose marks have prefixes of their own. */
export const logUnit = (unit: string, wire: Wire = "byte"): string =>
  unit === "ns" ? "" : scaleFor(unit, 1, wire).unit;

/** Marks of a logarithmic axis: powers of ten, of sizes in bytes powers of 1024; at most six. */
export function logMarks(
  low: number,
  high: number,
  unit: string,
  wire: Wire = "byte",
): { values: number[]; labels: string[] } {
  const base = unit === "B" ? 1024 : 10;
  const power = (v: number): number => Math.log(v) / Math.log(base);
  const first = Math.ceil(power(low) - 1e-9);
  const end = Math.floor(power(high) + 1e-9);
  const each = Math.max(1, Math.ceil((end - first + 1) / 6));
  const values: number[] = [];
  for (let p = first; p <= end; p += each) values.push(base ** p);
  const plain = logUnit(unit, wire);
  const labels = values.map((v) => {
    const s = scaleFor(unit, v, wire);
    const prefix = plain !== "" && s.unit.endsWith(plain) ? s.unit.slice(0, -plain.length) : s.unit;
    return `${Number((v * s.times).toPrecision(3))} ${prefix}`.trim();
  });
  return { values, labels };
}

/** The next of 1, 2, 5 times a power of ten. */
export function roundStep(v: number): number {
  const p = 10 ** Math.floor(Math.log10(v));
  const m = v / p;
  return (m <= 1 + 1e-9 ? 1 : m <= 2 + 1e-9 ? 2 : m <= 5 + 1e-9 ? 5 : 10) * p;
}

function binaryStep(v: number): number {
  return v <= 1
    ? 2 ** Math.ceil(Math.log2(v))
    : v <= 2
      ? 2
      : v <= 4
        ? 4
        : v <= 8
          ? 8
          : v <= 16
            ? 16
            : v <= 32
              ? 32
              : v <= 64
                ? 64
                : v <= 128
                  ? 128
                  : v <= 256
                    ? 256
                    : 512;
}

/** A span of milliseconds in the words of people: "250 ms", "1 s", "5 min", "1 h 30 min", "7 d". */
export function howLong(ms: number): string {
  if (!(ms > 0)) return "0 s";
  if (rounded(ms) < 1000) return `${rounded(ms)} ms`;
  const parts: string[] = [];
  // Rounded before it is divided: 59.96 s is 1 min, never 60 s.
  let s = ms < 60_000 ? rounded(ms / 1000) : Math.round(ms / 1000);
  for (const [size, name] of [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ] as const) {
    if (s >= size) {
      parts.push(`${Math.floor(s / size)} ${name}`);
      s -= Math.floor(s / size) * size;
    }
  }
  if (s > 0 && parts.length < 2) parts.push(`${Number(s.toPrecision(3))} s`);
  return parts.slice(0, 2).join(" ");
}
