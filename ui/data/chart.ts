// A flame chart: the stacks of one thread in the order of time. A call that went on is one box;
// where nothing ran there is none.

import { type Calls, callsOf, type Times } from "./profile";

/** Calls by time: left and total are ns. Of the root, the time of all threads. */
export interface Chart extends Calls {
  /** Amount with all that the call calls; NaN where the chart is a sketch. */
  amount: Float64Array;
  /** Nanoseconds per step of a sketch, which shows the longest stack of each step; 0: no sketch. */
  step: number;
}

/** How many calls a chart has at most: about 40 MB. */
export const mostCalls = 600_000;

/** The moments of a thread: from this one to before the second. */
export function momentsOf(t: Times, thread: number): [number, number] {
  const first = (of: number) => {
    let low = 0;
    let high = t.thread.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (t.thread[mid]! < of) low = mid + 1;
      else high = mid;
    }
    return low;
  };
  return [first(thread), first(thread + 1)];
}

/** What each thread has, in ns of its moments. */
export function busyOf(t: Times): Float64Array {
  const out = new Float64Array(t.threads.length);
  for (let i = 0; i < t.thread.length; i++) out[t.thread[i]!]! += t.span[i]!;
  return out;
}

/** From the first moment of all threads to the end of the last one, in ns. */
export function lengthOf(t: Times): number {
  let end = 0;
  for (let i = 0; i < t.at.length; i++) end = Math.max(end, t.at[i]! + t.span[i]!);
  return end;
}

/**
 * The chart of a thread. Moments whose node is not in keep are gaps; null: all are shown. A chart
 * of more than `most` calls is a sketch. within: only the moments of a stretch of time.
 */
export function chartOf(
  c: Calls,
  t: Times,
  thread: number,
  keep: Uint8Array | null = null,
  most = mostCalls,
  within: { from: number; to: number } = { from: 0, to: Number.POSITIVE_INFINITY },
): Chart {
  const whole = lengthOf(t);
  const [from, to] = momentsOf(t, thread);
  const all = new Uint32Array(to - from);
  let n = 0;
  for (let i = from; i < to; i++) {
    if (t.at[i]! >= within.to) break;
    if (t.at[i]! + t.span[i]! <= within.from) continue;
    if (t.node[i]! > 0 && (!keep || keep[t.node[i]!])) all[n++] = i;
  }
  let list: Uint32Array = all.subarray(0, n);
  let step = 0;
  let size = countOf(c, t, list, 0);
  for (let steps = 1 << 15; size > most && steps >= 1; steps >>= 1) {
    step = (Math.min(whole, within.to) - within.from) / steps;
    list = longest(t, all.subarray(0, n), step);
    size = countOf(c, t, list, step);
  }
  return filled(c, t, list, size, step, whole);
}

/** Of each step the moment that is longest. */
function longest(t: Times, list: Uint32Array, step: number): Uint32Array {
  const out: number[] = [];
  let slot = -1;
  for (const i of list) {
    const at = Math.floor(t.at[i]! / step);
    if (at !== slot) {
      out.push(i);
      slot = at;
    } else if (t.span[i]! > t.span[out[out.length - 1]!]!) out[out.length - 1] = i;
  }
  return Uint32Array.from(out);
}

/** Begin and end of a moment; in a sketch those of its step. */
function begin(t: Times, i: number, step: number): number {
  return step > 0 ? Math.floor(t.at[i]! / step) * step : t.at[i]!;
}

function finish(t: Times, i: number, step: number): number {
  return step > 0 ? begin(t, i, step) + step : t.at[i]! + t.span[i]!;
}

/** Follows the calls that are open, moment by moment. */
class Open {
  readonly path: Int32Array;
  depth = 0;
  private end = -1;

  constructor(private readonly c: Calls) {
    this.path = new Int32Array(c.deepest + 1);
  }

  /** How many calls go on with the next moment. */
  next(t: Times, i: number, step: number): number {
    const { depth, parent } = this.c;
    let p = t.node[i]!;
    while (p > 0 && (depth[p]! > this.depth || this.path[depth[p]!] !== p)) p = parent[p]!;
    let common = depth[p]!;
    if (t.kept[i]! >= 0 && step === 0) common = Math.min(common, t.kept[i]!);
    const at = begin(t, i, step);
    if (at - this.end > Math.max(0.5, 1e-9 * at)) common = 0; // nothing ran meanwhile
    this.end = finish(t, i, step);
    return common;
  }

  /** Opens the calls of a moment. The first common of them continue from the previous moment. */
  enter(node: number, common: number): void {
    const { depth, parent } = this.c;
    this.depth = depth[node]!;
    for (let p = node; depth[p]! > common; p = parent[p]!) this.path[depth[p]!] = p;
  }
}

/** How many calls a chart of these moments has, with the root. */
function countOf(c: Calls, t: Times, list: Uint32Array, step: number): number {
  const open = new Open(c);
  let n = 1;
  for (const i of list) {
    const common = open.next(t, i, step);
    n += c.depth[t.node[i]!]! - common;
    open.enter(t.node[i]!, common);
  }
  return n;
}

function filled(
  c: Calls,
  t: Times,
  list: Uint32Array,
  size: number,
  step: number,
  whole: number,
): Chart {
  const out: Chart = {
    functions: c.functions,
    fn: new Uint32Array(size),
    parent: new Int32Array(size),
    depth: new Uint32Array(size),
    end: new Uint32Array(size),
    self: new Float64Array(size),
    total: new Float64Array(size),
    left: new Float64Array(size),
    before: null,
    deepest: 0,
    amount: new Float64Array(size),
    step,
  };
  out.parent[0] = -1;
  out.end[0] = size;
  out.total[0] = whole;
  const open = new Open(c);
  const boxes = new Int32Array(c.deepest + 1); // of the open calls, by depth
  let n = 1;
  let now = 0;
  let depth = 0;
  const close = (to: number) => {
    for (; depth > to; depth--) {
      const box = boxes[depth]!;
      out.end[box] = n;
      out.total[box] = now - out.left[box]!;
    }
  };
  const fresh = new Int32Array(c.deepest + 1);
  for (const i of list) {
    const node = t.node[i]!;
    const common = open.next(t, i, step);
    close(common);
    open.enter(node, common);
    const at = begin(t, i, step);
    const deep = c.depth[node]!;
    for (let p = node, d = deep; d > common; p = c.parent[p]!, d--) fresh[d] = p;
    for (depth = common + 1; depth <= deep; depth++) {
      out.fn[n] = c.fn[fresh[depth]!]!;
      out.parent[n] = depth > 1 ? boxes[depth - 1]! : 0;
      out.depth[n] = depth;
      out.left[n] = at;
      boxes[depth] = n++;
    }
    depth = deep;
    if (deep > out.deepest) out.deepest = deep;
    now = finish(t, i, step);
    out.self[boxes[deep]!]! += now - at;
    out.amount[boxes[deep]!]! += t.amount[i]!;
  }
  close(0);
  if (step > 0) out.amount.fill(Number.NaN);
  else for (let i = size - 1; i > 0; i--) out.amount[out.parent[i]!]! += out.amount[i]!;
  return out;
}

/** The calls of a thread in a stretch of time, in ns; of a moment that is cut, its part. */
export function during(
  c: Calls,
  t: Times,
  thread: number,
  from: number,
  to: number,
  keep: Uint8Array | null = null,
): Calls {
  const self = new Float64Array(c.fn.length);
  const [first, last] = momentsOf(t, thread);
  for (let i = first; i < last; i++) {
    const node = t.node[i]!;
    if (keep && !keep[node]) continue;
    const a = t.at[i]!;
    const span = t.span[i]!;
    if (a >= to) break;
    if (a >= from && a + span <= to) self[node]! += t.amount[i]!;
    else if (a + span > from && span > 0)
      self[node]! += (t.amount[i]! * (Math.min(to, a + span) - Math.max(from, a))) / span;
  }
  return callsOf(c.functions, c.fn, c.parent, self);
}

const units: readonly [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A mark of the axis: where it is in ns, and its words. */
export interface ChartMark {
  at: number;
  label: string;
}

/** Round times between two times, in ns since the start, for an axis that is width pixels long. */
export function chartMarks(from: number, to: number, width: number, apart = 90): ChartMark[] {
  const want = ((to - from) * apart) / Math.max(1, width);
  if (!(want > 0) || !Number.isFinite(want)) return [];
  const power = 10 ** Math.floor(Math.log10(want));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= want)!;
  const [unit, name] = units.find(([u]) => to >= u) ?? [1, "ns"];
  const places = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / unit) + 1e-9)));
  const out: ChartMark[] = [];
  for (let k = Math.ceil(from / step); k * step <= to && out.length < 200; k++)
    out.push({ at: k * step, label: `${((k * step) / unit).toFixed(places)} ${name}` });
  return out;
}
