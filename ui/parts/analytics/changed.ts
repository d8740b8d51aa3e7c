// Which two times "what changed" compares, and how a change is said.

import type { Difference, Differences } from "../../data/api";
import { bytes, type Params, refusal, Trouble } from "../../data/client";
import { print, type Sentence } from "../../data/drill";
import { Events } from "../../data/events";
import { day, hour, type Moments, minute, parseTime, printTime, second } from "../../state/time";

/** What a time is compared with; else two moments, BEGIN..END. */
export const againsts = ["before", "around", "hour", "day", "week"] as const;
export type Against = (typeof againsts)[number];

export const againstWords: Record<Against, string> = {
  before: "the time before A",
  around: "B against A",
  hour: "an hour earlier",
  day: "a day earlier",
  week: "a week earlier",
};

const shifts: Partial<Record<string, number>> = { hour, day, week: 7 * day };

/** The shortest time that can be compared: three ticks. */
const least = 3 * second;

const whole = (ms: number): number => Math.round(ms / second) * second;

/** A moment with a little of the time around it, of at most a minute; nothing beyond now. */
function around(ms: number, width: number, now: number): Moments {
  const to = Math.min(whole(ms + width / 2), Math.floor(now / second) * second);
  return { from: to - width, to };
}

/**
 * The time in question, between the marks, and the time that it is compared with; a text instead of
 * them says why they can't be compared.
 */
export function sidesOf(
  a: number,
  b: number,
  against: string,
  now: number,
): { before: Moments; after: Moments } | string {
  const after = { from: whole(Math.min(a, b)), to: whole(Math.max(a, b)) };
  const span = after.to - after.from;
  if (!(span >= least)) return "A and B are too close: three seconds or more";
  if (against === "around") {
    const width = Math.min(minute, Math.max(least, whole(span)));
    return { before: around(a, width, now), after: around(b, width, now) };
  }
  const shift = shifts[against];
  if (shift !== undefined)
    return { before: { from: after.from - shift, to: after.to - shift }, after };
  const [from, to] = against.split("..").map(parseTime);
  if (typeof from === "number" && typeof to === "number")
    return to - from >= least
      ? { before: { from, to }, after }
      : "the time to compare with is too short: three seconds or more";
  return { before: { from: after.from - span, to: after.from }, after };
}

/** The two times as the page keeps them. */
export const printAgainst = (m: Moments): string => `${printTime(m.from)}..${printTime(m.to)}`;

/** How much a value changed: "3.1 times", "88 % less", "from nothing". */
export function ratioText(before: number, after: number): string {
  const a = Math.abs(before);
  const b = Math.abs(after);
  if (a === 0) return "from nothing";
  if (b === 0) return "to nothing";
  return b > a
    ? `${Number((b / a).toPrecision(3))} times`
    : `${Math.round(100 * (1 - b / a))} % less`;
}

/** The query that shows one of the values that explain a change among the others of its field. */
export function explained(c: Difference, parts: Sentence | null, field: string): string {
  return print({
    stat: c.statistic,
    by: [field],
    where: (parts?.where ?? []).filter((t) => t.field !== field),
  });
}

/** Both times in one picture, with a little beside; where they lie far apart, only the later. */
export function inOnePicture(before: Moments, after: Moments, now: number): Moments {
  const from = Math.min(before.from, after.from);
  const to = Math.max(before.to, after.to);
  const far = to - from > 20 * (after.to - after.from);
  const shown = far ? after : { from, to };
  const pad = Math.max(5 * second, (shown.to - shown.from) * (far ? 0.5 : 0.05));
  return { from: whole(shown.from - pad), to: Math.min(whole(shown.to + pad), whole(now)) };
}

/** The same question on a command line. */
export function changedLine(before: Moments, after: Moments): string {
  return `culprit changed --from ${printTime(after.from)} --to ${printTime(after.to)} --against ${printAgainst(before)}`;
}

/** What a comparison that goes on has found so far. */
export interface Part {
  /** Statistics that were read, of all. */
  read: number;
  of: number;
  report: Differences;
}

/** Compares two times, and reports what is found meanwhile. */
export async function differences(
  params: Params,
  signal: AbortSignal,
  onpart: (p: Part) => void,
): Promise<Differences> {
  const answer = await bytes("changed", params, "text/event-stream", signal);
  const end: { report?: Differences; error?: string } = {};
  const events = new Events((e) => {
    if (e.name === "part") onpart(JSON.parse(e.data) as Part);
    else if (e.name === "report") end.report = JSON.parse(e.data) as Differences;
    else if (e.name === "error") end.error = e.data;
  });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    events.push(value);
  }
  if (end.error !== undefined) throw await refusal(new Response(end.error, { status: 503 }));
  if (!end.report) throw new Trouble("the connection broke before the comparison was complete", 0);
  return end.report;
}
