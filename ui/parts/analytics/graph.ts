// How one graph is shown, as a short text of the URL: "stack bit crop=1 sel=eth0,rx sel=lo,rx".

import { parse } from "../../data/drill";
import type { Rectangle } from "../../data/heatmap";
import { howLong, type Wire } from "../../data/units";
import { day, hour, longest, parseSpan, printSpan, second } from "../../state/time";

export interface Options {
  /** Rows on one another instead of lines. Only where they add up. */
  stack: boolean;
  /** Only its head is shown, and nothing is asked for. */
  fold: boolean;
  /** Each row a line of colours: for many rows. */
  heat: boolean;
  /** A distribution as lines of its means, not as a heat map. */
  lines: boolean;
  /** What is chosen of a heat map; null: nothing. */
  box: Rectangle | null;
  /** What bytes per second are shown in. */
  wire: Wire;
  /** The share of the cells, in percent, that is clipped at the top: one of crops. */
  crop: number;
  /** The rows that alone are shown; none: all. */
  selected: string[][];
  /** Rows that are left out. */
  hidden: string[][];
  /**
   * How much earlier the rows are that lines and stacks are compared with, in milliseconds; 0: no
   * comparison.
   */
  earlier: number;
  /** A logarithmic axis of lines, and colours by the logarithm of rows. */
  log: boolean;
  /** The order of the rows: "": those unlike the others first, then the largest. */
  sort: Sort;
  /** The numbers as a table, below. */
  table: boolean;
  /**
   * Sentences whose terms the graph is not narrowed by, though the row that it was opened from was:
   * see Drill.
   */
  wider: string[];
}

/** What rows may be ordered by; with "-" the other way round: Z to A, the least first. */
export const sorts = ["", "name", "-name", "value", "-value", "mean", "-mean"] as const;
export type Sort = (typeof sorts)[number];

/** The shares, in percent, of cells that may be clipped. */
export const crops = [0, 0.1, 1, 5] as const;

/** The times before that are offered. */
export const earliers = [hour, day, 7 * day] as const;

/** The shortest time before: less is no other time. */
const shortestEarlier = 10 * second;

/** The words for a time before: "1 h before", "yesterday". */
export function earlierName(ms: number): string {
  if (ms === day) return "yesterday";
  return ms === 7 * day ? "last week" : `${howLong(ms)} before`;
}

/** The time before that a text means, as 90m or 3d; a sentence that says why there is none. */
export function parseEarlier(text: string): number | string {
  const ms = parseSpan(text.trim().replaceAll(" ", ""));
  if (ms === null) return "a length of time, such as 90m, 2h or 3d";
  if (ms < shortestEarlier) return "at least 10s";
  return ms > longest ? "at most 400d" : Math.round(ms / 1000) * 1000;
}

export const plain: Options = {
  stack: false,
  fold: false,
  heat: false,
  lines: false,
  box: null,
  wire: "byte",
  crop: 0,
  selected: [],
  hidden: [],
  earlier: 0,
  log: false,
  sort: "",
  table: false,
  wider: [],
};

const label = (text: string): string => encodeURIComponent(text);
const keyText = (key: readonly string[]): string => key.map(label).join(",");

function keyOfText(text: string): string[] | null {
  try {
    return text.split(",").map(decodeURIComponent);
  } catch {
    return null;
  }
}

function boxOfText(text: string): Rectangle | null {
  const [from, to, low, high, more] = text.split(",").map(Number);
  if (from === undefined || to === undefined || low === undefined || high === undefined)
    return null;
  const good = from < to && low >= 0 && low < high && Number.isFinite(to + high - from);
  return good && more === undefined ? { from, to, low, high } : null;
}

/** Reads a text; what it can't mean is left out. */
export function parseOptions(text: string | undefined): Options {
  const out: Options = { ...plain, selected: [], hidden: [], wider: [] };
  for (const part of (text ?? "").split(" ")) {
    const [name, value = ""] = part.split("=", 2);
    if (part === "stack") out.stack = true;
    else if (part === "fold") out.fold = true;
    else if (part === "heat") out.heat = true;
    else if (part === "lines") out.lines = true;
    else if (name === "box") out.box = boxOfText(value);
    else if (part === "bit") out.wire = "bit";
    else if (part === "table") out.table = true;
    else if (part === "log") out.log = true;
    else if (name === "sort") out.sort = sorts.find((x) => x === value) ?? "";
    else if (name === "earlier") {
      const ms = parseEarlier(value);
      if (typeof ms === "number") out.earlier = ms;
    } else if (name === "crop") out.crop = crops.find((c) => String(c) === value) ?? 0;
    else if (name === "not") out.wider.push(...(keyOfText(value) ?? []));
    else if (name === "sel" || name === "hide") {
      const key = keyOfText(value);
      if (key) (name === "sel" ? out.selected : out.hidden).push(key);
    }
  }
  return out;
}

/**
 * The options of a graph whose sentence changes: rows are chosen anew. What the graph is not
 * narrowed by stays as long as the statistic stays.
 */
export function optionsFor(o: Options, before: string, after: string): Options {
  const stays = parse(before)?.stat === parse(after)?.stat;
  return {
    ...o,
    selected: [],
    hidden: [],
    wider: stays ? o.wider : [],
    box: stays ? o.box : null,
  };
}

/** Writes what parseOptions reads; "" for the default. */
export function printOptions(o: Options): string {
  const parts: string[] = [];
  if (o.stack) parts.push("stack");
  if (o.fold) parts.push("fold");
  if (o.heat) parts.push("heat");
  if (o.lines) parts.push("lines");
  if (o.box) parts.push(`box=${o.box.from},${o.box.to},${o.box.low},${o.box.high}`);
  if (o.wire === "bit") parts.push("bit");
  if (o.crop !== 0) parts.push(`crop=${o.crop}`);
  for (const k of o.selected) parts.push(`sel=${keyText(k)}`);
  for (const k of o.hidden) parts.push(`hide=${keyText(k)}`);
  if (o.earlier > 0) parts.push(`earlier=${printSpan(o.earlier)}`);
  if (o.log) parts.push("log");
  if (o.sort !== "") parts.push(`sort=${o.sort}`);
  if (o.table) parts.push("table");
  if (o.wider.length > 0) parts.push(`not=${keyText(o.wider)}`);
  return parts.join(" ");
}

/**
 * The worksheet of somebody who has chosen nothing: CPU, memory, disks, network, and who uses the
 * CPU.
 */
export const first: readonly [string, string][] = [
  ['cpu.time by mode where mode != "idle"', "stack"],
  ['memory.size by kind where kind in ("total", "available", "anon", "cached", "free")', ""],
  ['disk.bytes by device,direction where direction in ("read", "write") and device !~ "loop*"', ""],
  // With the namespace: each has an eth0 or a lo of its own, and the sum of those is nobody's.
  ['net.device.bytes by netns,device,direction where device != "lo"', ""],
  ["process.cpu by process", ""],
];

/** That of a host of the engine, whose server sends the interfaces of its own namespace only. */
export const firstOfHost: readonly [string, string][] = [
  ...first.slice(0, 3),
  ['net.device.bytes by device,direction where device != "lo"', ""],
  ["pressure.time by resource,scope", ""],
];

/** The same question on a command line, of a stretch of the past in whole seconds. */
export function commandLine(
  sentence: string,
  from: number,
  to: number,
  step: number,
  namespaces: boolean,
  host = "",
): string {
  const when = (ms: number): string =>
    new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000Z", "Z");
  const whole = Math.max(1, Math.round(step / 1000));
  // The address of the engine is known to the server only.
  const engine = host === "" ? "" : ` --host '${host.replaceAll("'", "'\\''")}'`;
  return `culprit stat '${sentence.replaceAll("'", "'\\''")}' ${whole} --from ${when(from)} --to ${when(to)}${namespaces && host === "" ? " --netns all" : ""}${engine}`;
}

/** The same of a graph that is compared with an earlier time: a command for each of both. */
export function commandLines(
  earlier: number,
  ...[sentence, from, to, ...rest]: Parameters<typeof commandLine>
): string {
  const line = (by: number): string => commandLine(sentence, from - by, to - by, ...rest);
  return earlier > 0 ? `${line(0)}; ${line(earlier)}` : line(0);
}

/**
 * Why a query has no answer, without what the message repeats: "not recorded yet", or which query
 * is recorded in its place.
 */
export function notRecorded(message: string): string {
  const why = message
    .replace(/^ask .*?: (?=it was never|no dataset)/, "")
    .replace(/: could not tell$/, "");
  return why === "it was never recorded" ? "not recorded yet" : why;
}
