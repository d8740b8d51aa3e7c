// A recording that is younger than the range that a view shows: what was not recorded yet is left
// out, instead of a graph that is empty for the most part.

import { hour, type Moments, minute, type Range, second, still, stretch, zoomed } from "./time";

/** Lengths that are asked for while a recording grows: each change asks for all graphs again. */
const growing = [
  ...[1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45].map((n) => n * minute),
  ...[1, 1.5, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48, 72, 96, 120, 144, 168].map((n) => n * hour),
];

/** The shortest time that a graph shows: a second after the start there is a line to see. */
const least = 10 * second;

/**
 * The length of a live range that holds all that was recorded since a moment: of a recording that
 * is older than the range, or whose start is not known (0), the range's own.
 */
export function spanSince(span: number, since: number, now: number): number {
  if (!(since > 0)) return span;
  return Math.min(span, growing.find((g) => g >= now - since) ?? span);
}

/** The time in sight of a range that ends at a moment: none before the recording began. */
export function inSight(range: Range, since: number, now: number): Moments {
  const { from, to } = stretch(range, now);
  if (range.kind === "past" || !(since > 0)) return { from, to };
  return { from: Math.max(from, Math.min(since, to - least)), to };
}

/** Whether a live range would begin before the recording did. */
export function isYoung(range: Range, since: number, now: number): boolean {
  return range.kind === "live" && since > 0 && now - range.span < since;
}

/** The fixed range of what is in sight. */
export function stillInSight(range: Range, since: number, now: number): Range {
  return still({ kind: "past", ...inSight(range, since, now) }, now);
}

/** The live range of what is in sight, to be moved and made shorter; a past range as it is. */
export function exact(range: Range, since: number, now: number): Range {
  if (!isYoung(range, since, now)) return range;
  const { from, to } = inSight(range, since, now);
  return { kind: "live", span: Math.round(to - from) };
}

/** The range after a zoom. A factor below 1 zooms into the visible part of the recording. */
export function zoomedInSight(range: Range, factor: number, since: number, now: number): Range {
  return zoomed(factor < 1 ? exact(range, since, now) : range, factor, now);
}

/**
 * The live range after a pause: as long as the paused one, but the usual one when that reached back
 * to the start of the recording.
 */
export function resumed(range: Range, since: number, usual: Range): Range {
  if (range.kind === "live") return range;
  if (since > 0 && range.from <= since + second && range.to - range.from < 10 * minute)
    return usual;
  return { kind: "live", span: Math.round(range.to - range.from) };
}
