// Moments as people type them: "14:00", "yesterday 14:00", "2026-11-21 17:52", "2 h ago".

import { day, parseSpan } from "./time";

/** The moment that a text means, in the browser's zone; null if it means none or a later one. */
export function parseMoment(text: string, now: number): number | null {
  const t = text.trim().toLowerCase();
  const ago = /^(.+?) ago$/.exec(t) ?? /^-(.+)$/.exec(t);
  if (ago) {
    const span = parseSpan(ago[1]!.replace(/\s+/g, "").replace(/min$/, "m"));
    return span === null ? null : now - span;
  }
  const parts =
    /^(?:(today|yesterday|(\d{4})-(\d\d)-(\d\d))[ t]?)?\s*(?:(\d{1,2}):(\d\d)(?::(\d\d))?)?$/.exec(
      t,
    );
  if (!parts || t === "") return null;
  const [, word, year, month, date, hour, minute, second] = parts;
  if (hour !== undefined && (Number(hour) > 23 || Number(minute) > 59 || Number(second ?? 0) > 59))
    return null;
  const at = new Date(now);
  at.setHours(Number(hour ?? 12), Number(minute ?? 0), Number(second ?? 0), 0);
  if (year !== undefined) at.setFullYear(Number(year), Number(month) - 1, Number(date));
  else if (word === "yesterday") at.setDate(at.getDate() - 1);
  let ms = at.getTime();
  // A time of day alone is the last one that was.
  if (word === undefined && ms > now) ms = at.setDate(at.getDate() - 1);
  if (year !== undefined && at.getDate() !== Number(date)) return null;
  return ms > now || now - ms > 4000 * day ? null : ms;
}
