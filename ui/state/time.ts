// The time that a view shows: a window that follows the clock, or a stretch of the past.
// Milliseconds since the epoch.

export type Range = { kind: "live"; span: number } | { kind: "past"; from: number; to: number };

/** A stretch of time. */
export type Moments = { from: number; to: number };

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

/** What a view shows that says nothing. */
export const fresh: Range = { kind: "live", span: 10 * minute };

/** The shortest and the longest stretch that can be looked at. */
export const shortest = 5 * second;
export const longest = 400 * day;

/** The stretch that a range means at a moment. */
export function stretch(range: Range, now: number): Moments {
  return range.kind === "live"
    ? { from: now - range.span, to: now }
    : { from: range.from, to: range.to };
}

/** The length of a range in milliseconds. */
export function length(range: Range): number {
  return range.kind === "live" ? range.span : range.to - range.from;
}

/**
 * The fixed range: of a permalink, and after a pause. Whole seconds, as
 * ticks are.
 */
export function still(range: Range, now: number): Range {
  const { from, to } = stretch(range, now);
  return {
    kind: "past",
    from: Math.floor(from / second) * second,
    to: Math.ceil(to / second) * second,
  };
}

/** The range that follows the clock, of the same length. */
export function following(range: Range): Range {
  return { kind: "live", span: Math.round(length(range)) };
}

/**
 * A range moved by a share of its length; to the future no further than now, where it follows the
 * clock again.
 */
export function panned(range: Range, share: number, now: number): Range {
  const { from, to } = stretch(range, now);
  const by = (to - from) * share;
  if (to + by >= now) return following(range);
  return { kind: "past", from: from + by, to: to + by };
}

/**
 * A range made longer (factor over 1) or shorter around a moment; a range that follows the clock
 * keeps its end.
 */
export function zoomed(range: Range, factor: number, now: number, around?: number): Range {
  const want = Math.min(longest, Math.max(shortest, length(range) * factor));
  if (range.kind === "live") return { kind: "live", span: Math.round(want) };
  const middle = around ?? (range.from + range.to) / 2;
  const share = (middle - range.from) / (range.to - range.from);
  const from = middle - want * share;
  return from + want >= now
    ? { kind: "live", span: Math.round(want) }
    : { kind: "past", from, to: from + want };
}

const units: [string, number][] = [
  ["d", day],
  ["h", hour],
  ["m", minute],
  ["s", second],
];

/** "90s", "10m", "1h30m", "7d", as the command line writes spans; of less than a second "250ms". */
export function printSpan(ms: number): string {
  let rest = Math.round(ms);
  let out = "";
  for (const [name, size] of units) {
    if (rest >= size) {
      out += Math.floor(rest / size) + name;
      rest %= size;
    }
  }
  return rest > 0 || out === "" ? `${out}${rest}ms` : out;
}

/** Milliseconds of "90s", "1h30m", "250ms"; null of anything else and of nothing. */
export function parseSpan(text: string): number | null {
  if (!/^(\d+(\.\d+)?(ms|[smhdw]))+$/.test(text)) return null;
  let total = 0;
  for (const [, n, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)) {
    total +=
      Number(n) *
      (unit === "ms"
        ? 1
        : unit === "w"
          ? 7 * day
          : (units.find(([name]) => name === unit)?.[1] ?? Number.NaN));
  }
  return total > 0 && Number.isFinite(total) ? total : null;
}

/** A moment as ISO 8601 in UTC, without a fraction where there is none. */
export function printTime(ms: number): string {
  return new Date(Math.round(ms)).toISOString().replace(".000Z", "Z");
}

/**
 * Milliseconds of an ISO 8601 time with its zone, or of a number of milliseconds; null of anything
 * else.
 */
export function parseTime(text: string): number | null {
  if (/^\d{10,16}$/.test(text)) return Number(text);
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return null;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** Reads from=&to= or last=; a wrong or missing value is the fresh window. */
export function parseRange(params: URLSearchParams): Range {
  const from = parseTime(params.get("from") ?? "");
  const to = parseTime(params.get("to") ?? "");
  if (from !== null && to !== null && to > from && to - from <= longest)
    return { kind: "past", from, to };
  const span = parseSpan(params.get("last") ?? "");
  return span === null
    ? fresh
    : { kind: "live", span: Math.min(longest, Math.max(shortest, span)) };
}

/** Writes what parseRange reads; nothing for the fresh window. */
export function printRange(range: Range): [string, string][] {
  if (range.kind === "past") {
    return [
      ["from", printTime(range.from)],
      ["to", printTime(range.to)],
    ];
  }
  return range.span === length(fresh) ? [] : [["last", printSpan(range.span)]];
}
