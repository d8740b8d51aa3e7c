// Moments and ranges as people type them: "14:00", "yesterday 14:00", "2026-11-21 17:52",
// "2 h ago", "-2h", "yesterday 14:00..15:00". In the zone that is chosen.

import { momentOf, shownZone, type Zone } from "../data/zone";
import { day, longest, minute, parseSpan, parseTime, type Range, shortest } from "./time";

/** The longest time ago that a text may mean. */
const oldest = 4000 * day;

/**
 * A length of time as people write it: "2h", "20 min", "2 hours", "an hour", "hour"; null of
 * anything else.
 */
function spelledSpan(text: string): number | null {
  const short = text
    .trim()
    .toLowerCase()
    .replace(/^(an? )?(?=(second|minute|hour|day|week)$)/, "1 ")
    .replace(/(\d)\s*(?:seconds?|secs?)\b/g, "$1s")
    .replace(/(\d)\s*(?:minutes?|mins?)\b/g, "$1m")
    .replace(/(\d)\s*(?:hours?|hrs?)\b/g, "$1h")
    .replace(/(\d)\s*days?\b/g, "$1d")
    .replace(/(\d)\s*weeks?\b/g, "$1w");
  return parseSpan(short.replace(/\s+/g, ""));
}

/** The moment that a text means. */
interface Meant {
  ms: number;
  /** The text has a day. */
  dated: boolean;
  /** The day at 0:00, as the wall clock has it: see momentOf. */
  midnight: number;
}

/**
 * The moment that a text means; null if it means none. A time of day alone is of the day that
 * begins at midnight, or of the newest day on which it is over.
 */
function meant(text: string, now: number, zone: Zone, midnight?: number): Meant | null {
  const wallNow = now + zone(now) * minute;
  const today = Math.floor(wallNow / day) * day;
  const t = text.trim().toLowerCase();
  if (t === "now") return { ms: now, dated: true, midnight: today };
  const exact = parseTime(text.trim());
  if (exact !== null) return { ms: exact, dated: true, midnight: today };
  const ago = /^(.+?) ago$/.exec(t) ?? /^-(.+)$/.exec(t);
  if (ago) {
    const span = spelledSpan(ago[1]!);
    return span === null ? null : { ms: now - span, dated: true, midnight: today };
  }
  const parts =
    /^(?:(today|yesterday|(\d{4})-(\d\d)-(\d\d))[ t]?)?\s*(?:(\d{1,2}):(\d\d)(?::(\d\d))?)?(?: ?(utc|z))?$/.exec(
      t,
    );
  if (!parts || t === "" || /^(utc|z)$/.test(t)) return null;
  const [, word, year, month, date, hour, min, second, utc] = parts;
  if (hour !== undefined && (Number(hour) > 23 || Number(min) > 59 || Number(second ?? 0) > 59))
    return null;
  const of: Zone = utc === undefined ? zone : () => 0;
  const clock = (Number(hour ?? 12) * 60 + Number(min ?? 0)) * minute + Number(second ?? 0) * 1000;
  let start = Math.floor((now + of(now) * minute) / day) * day;
  if (year !== undefined) {
    start = Date.UTC(Number(year), Number(month) - 1, Number(date));
    if (new Date(start).getUTCDate() !== Number(date)) return null;
  } else if (word === "yesterday") start -= day;
  else if (word === undefined && midnight !== undefined) start = midnight;
  let ms = momentOf(start + clock, of);
  // A time of day alone is the last one that was.
  if (word === undefined && midnight === undefined && ms > now)
    ms = momentOf(start - day + clock, of);
  return { ms, dated: word !== undefined, midnight: start };
}

/** The moment that a text means; null if it means none or a later one. */
export function parseMoment(text: string, now: number, zone: Zone = shownZone): number | null {
  const m = meant(text, now, zone);
  return m === null || m.ms > now || now - m.ms > oldest ? null : m.ms;
}

/** The day that a text alone means, from midnight to midnight; null if it means none. */
function dayOf(text: string, now: number, zone: Zone): { from: number; to: number } | null {
  if (!/^\s*(today|yesterday|\d{4}-\d\d-\d\d)\s*$/i.test(text)) return null;
  const m = meant(text, now, zone);
  if (m === null) return null;
  return { from: momentOf(m.midnight, zone), to: Math.min(now, momentOf(m.midnight + day, zone)) };
}

/**
 * The range that a text means: "-2h", "2h" or "last 2 hours" follows the clock; "yesterday
 * 14:00..15:00", "13:00 to 13:30", "13:00-13:30", "-2h..-1h", "2026-11-21", "14:00" (ten minutes
 * around it). A text that means none is answered by a sentence that says why.
 */
export function parseTyped(text: string, now: number, zone: Zone = shownZone): Range | string {
  const t = text.trim();
  const span = spelledSpan(t.replace(/^(last |-)\s*/i, ""));
  if (span !== null) {
    if (span < shortest) return "at least five seconds";
    return span > longest ? "at most 400 days" : { kind: "live", span };
  }
  // A dash joins times of day without spaces too, but is part of a day and of "-2h".
  const [begin, end, more] = t.split(
    /\s*\.\.\s*|\s+to\s+|\s+(?:-|–|—)\s+|(?<=:\d\d)\s*[-–—]\s*(?=\d{1,2}:)/,
  );
  if (end === undefined) {
    const whole = dayOf(t, now, zone);
    if (whole) return ranged(whole.from, whole.to, now);
    const at = parseMoment(t, now, zone);
    if (at === null) return refusal(t, meant(t, now, zone), now);
    const to = Math.min(now, at + 5 * minute);
    return ranged(to - 10 * minute, to, now);
  }
  if (more !== undefined) return "one BEGIN..END";
  const from = meant(begin!, now, zone);
  if (from === null) return refusal(begin!, from, now);
  const to =
    end === ""
      ? meant("now", now, zone)
      : meant(end, now, zone, from.dated ? from.midnight : undefined);
  if (to === null) return refusal(end, to, now);
  // 23:50..0:10 ends on the next day; a begin without a day is the one before its end.
  if (to.ms <= from.ms && !to.dated) to.ms += day;
  if (from.ms > to.ms && !from.dated) from.ms -= day;
  return ranged(from.ms, Math.min(to.ms, now), now);
}

function ranged(from: number, to: number, now: number): Range | string {
  if (from > now) return "that is not yet";
  if (!(to > from)) return "it ends before it begins";
  if (to - from < shortest) return "at least five seconds";
  return to - from > longest ? "at most 400 days" : { kind: "past", from, to };
}

function refusal(text: string, m: Meant | null, now: number): string {
  if (m !== null && m.ms > now) return "that is not yet";
  if (m !== null) return "that is too long ago";
  return `"${text.slice(0, 40)}" is no time: -2h, 14:00..15:00, yesterday 14:00..15:00, 2026-11-21 17:52`;
}
