// The time axis: which moments are marked, and with which words. In the zone that is chosen.

import { momentOf, shownZone, type Zone } from "../data/zone";

/** A mark on the time axis. */
export interface TimeMark {
  ms: number;
  label: string;
  /** The first of a day (or of the year, on long axes): drawn stronger. */
  major: boolean;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const steps = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  second,
  2 * second,
  5 * second,
  10 * second,
  15 * second,
  30 * second,
  minute,
  2 * minute,
  5 * minute,
  10 * minute,
  15 * minute,
  30 * minute,
  hour,
  2 * hour,
  3 * hour,
  6 * hour,
  12 * hour,
  day,
  2 * day,
  7 * day,
  14 * day,
  28 * day,
  91 * day,
  364 * day,
];

const two = (n: number): string => String(n).padStart(2, "0");
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The distance of marks that are at least `apart` pixels from one another, in milliseconds. */
export function timeStep(spanMs: number, width: number, apart: number): number {
  const want = (spanMs * apart) / Math.max(1, width);
  return steps.find((s) => s >= want) ?? steps[steps.length - 1]!;
}

/**
 * Marks from a moment to another on an axis of so many pixels, each `apart` pixels from the next at
 * least.
 */
export function timeMarks(
  from: number,
  to: number,
  width: number,
  apart = 90,
  zone: Zone = shownZone,
): TimeMark[] {
  if (!(to > from)) return [];
  const step = timeStep(to - from, width, apart);
  const out: TimeMark[] = [];
  // Marks are round in local time: each is looked for from the beginning of its local day, so that
  // a change of the clock moves none.
  const shift = zone(from) * minute;
  let wall = Math.ceil((from + shift) / step) * step;
  let dayBefore = NaN;
  for (let n = 0; n < 1000; n++, wall += step) {
    const ms = momentOf(wall, zone);
    if (ms > to) break;
    if (ms < from) continue;
    const local = new Date(wall); // read with the UTC getters
    const today = Math.floor(wall / day);
    const midnight = wall % day === 0;
    const fresh = midnight || (today !== dayBefore && !Number.isNaN(dayBefore));
    dayBefore = today;
    const clock = `${two(local.getUTCHours())}:${two(local.getUTCMinutes())}`;
    let label: string;
    if (step >= day || fresh) label = `${local.getUTCDate()} ${months[local.getUTCMonth()]}`;
    else if (step >= minute) label = clock;
    else if (step >= second) label = `${clock}:${two(local.getUTCSeconds())}`;
    else
      label = `:${two(local.getUTCSeconds())}.${String(local.getUTCMilliseconds()).padStart(3, "0")}`;
    out.push({ ms, label, major: fresh && step < day });
  }
  return out;
}

/** A moment in full: "2026-11-21 17:52:40", with milliseconds when there are some. */
export function moment(ms: number, zone: Zone = shownZone): string {
  const d = new Date(ms + zone(ms) * minute);
  const part = d.getUTCMilliseconds();
  return `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${clockOf(d)}${part ? `.${String(part).padStart(3, "0")}` : ""}`;
}

/** The time of day of a moment: "17:52:40". */
export function clock(ms: number, zone: Zone = shownZone): string {
  return clockOf(new Date(ms + zone(ms) * minute));
}

/** A moment to the second: the time of day, of another day than now's the whole. */
export function brief(ms: number, now: number): string {
  const at = moment(Math.floor(ms / second) * second);
  return at.slice(0, 10) === moment(now).slice(0, 10) ? at.slice(11) : at;
}

function clockOf(d: Date): string {
  return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`;
}
