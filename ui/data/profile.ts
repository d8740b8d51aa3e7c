// Profiles as typed arrays: nodes in the order of a walk, so that what a node calls, and all below,
// stands right behind it.

import { FormatError } from "./columns";

/** Where the code of a function lives, in the order of the format. */
export const kinds = ["program", "kernel", "JIT", "inlined", "process"] as const;
export type Kind = (typeof kinds)[number];

/** The functions that the nodes of a profile name. */
export interface Functions {
  names: readonly string[];
  /** Of each function: its module by its place in modules; 0 not known. */
  module: Uint32Array;
  modules: readonly string[];
  file: Uint32Array;
  files: readonly string[];
  /** 0 not known. */
  line: Uint32Array;
  /** Of each function: its place in kinds. */
  kind: Uint8Array;
}

/**
 * A tree of calls. Node 0 is the root, which is no function; callers come before what they
 * call, and all that is below node n is n+1 .. end[n]-1.
 */
export interface Calls {
  functions: Functions;
  fn: Uint32Array;
  parent: Int32Array;
  depth: Uint32Array;
  end: Uint32Array;
  /** Amount in the node itself. */
  self: Float64Array;
  /** With all that it calls. */
  total: Float64Array;
  /**
   * The total of all that stands to the left of a node: it covers left[n] to left[n]+total[n].
   * Never less than that of the node before.
   */
  left: Float64Array;
  /** Of a comparison: what was before in the node itself, and with all that it calls. */
  before: { self: Float64Array; total: Float64Array } | null;
  /** Of the deepest node; the root has 0. */
  deepest: number;
}

/** When the stacks of a profile ran: moments in the order of thread and time. */
export interface Times {
  threads: readonly string[];
  thread: Uint32Array;
  /** The innermost call. */
  node: Uint32Array;
  /** Calls of the stack that went on from the moment before; -1: those that both have. */
  kept: Int32Array;
  /** In ns since the first moment. */
  at: Float64Array;
  /** In ns. */
  span: Float64Array;
  amount: Float64Array;
  /** The most that one sample counts for, in ns; 0: lengths were measured. */
  usual: number;
  /** The ns within which the order is not known; 0: it is known. */
  within: number;
  /** Moments that are not there. */
  left: number;
}

/** What source lines have, in the order of function and line. */
export interface Lines {
  fn: Uint32Array;
  line: Uint32Array;
  self: Float64Array;
  /** With what the line calls. */
  total: Float64Array;
}

/** What a profile is besides its calls. */
export interface Profile extends Calls {
  unit: string;
  /** Amounts are shares of all. */
  share: boolean;
  /** How many samples there were; 0 not known. */
  samples: number;
  /** Of CPU time; 0 not known. */
  seconds: number;
  notes: readonly string[];
  /** Of a comparison: how amounts were normalised; "" of a profile. */
  norm: string;
  /**
   * Of a sketch, in which runs of narrow calls are one node of function 0: the nodes of the whole;
   * 0 of a profile.
   */
  of: number;
  /** Null: it does not say when its stacks ran, or this is a sketch. */
  times: Times | null;
  /** Null: its frames have no source lines, or this is a sketch. */
  lines: Lines | null;
}

/** The media type. */
export const profileType = "application/vnd.culprit.profile";

interface Head {
  unit: string;
  share: boolean;
  samples: number;
  seconds: number;
  nodes: number;
  functions: number;
  of?: number;
  norm?: string;
  notes: string[];
  names: string[];
  modules: string[];
  files: string[];
  times?: { threads: string[]; moments: number; usual: number; within: number; left: number };
  lines?: number;
}

/** How many nodes are worked on between two looks at the clock: a millisecond or two. */
const slice = 1 << 15;

/** A piece of work that may be left for a while at each of its yields. */
type Work<T> = Generator<void, T, void>;

function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/**
 * Does a piece of work without keeping a frame waiting: after each few milliseconds all else has
 * its turn.
 */
async function between<T>(work: Work<T>, signal?: AbortSignal): Promise<T> {
  const { port1, port2 } = new MessageChannel(); // a timer would wait
  const turn = () =>
    new Promise<void>((done) => {
      port1.onmessage = () => done();
      port2.postMessage(0);
    });
  try {
    for (;;) {
      signal?.throwIfAborted();
      const until = performance.now() + 4;
      do {
        const step = work.next();
        if (step.done) return step.value;
      } while (performance.now() < until);
      await turn();
    }
  } finally {
    port1.close();
  }
}

/**
 * The binary form as a profile; docs/FORMATS.md draws it. Amounts are exact. Arrays look into the
 * buffer where they can.
 */
export function profileOf(buffer: ArrayBuffer): Profile {
  return atOnce(reading(buffer));
}

/** The same, without keeping a frame waiting. */
export function profileSoon(buffer: ArrayBuffer, signal?: AbortSignal): Promise<Profile> {
  return between(reading(buffer), signal);
}

function* reading(buffer: ArrayBuffer): Work<Profile> {
  const view = new DataView(buffer);
  if (buffer.byteLength < 12 || view.getUint32(0, false) !== 0x434c5046)
    throw new FormatError("this is not culprit's profile format");
  const flags = view.getUint16(6, true);
  if (view.getUint8(4) !== 1 || flags > 15)
    throw new FormatError("the profile format has a newer version: reload the page");
  const size = view.getUint32(8, true);
  if (12 + size > buffer.byteLength) throw new FormatError("the profile is truncated");
  const h = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, size))) as Head;
  const compared = (flags & 1) !== 0;
  const begin = (12 + size + 7) & ~7;
  const nodes = (begin + h.functions * 13 + 7) & ~7;
  const moments = nodes + h.nodes * (compared ? 24 : 16);
  const m = h.times?.moments ?? 0;
  const amounts = (moments + 12 * m + 7) & ~7;
  const lines = amounts + 24 * m;
  const l = h.lines ?? 0;
  if (lines + 24 * l !== buffer.byteLength) throw new FormatError("the profile is truncated");
  yield;
  const u32 = (at: number, n: number) => new Uint32Array(buffer, at, n);
  const f64 = (at: number, n: number) => new Float64Array(buffer, at, n);
  const n = h.functions;
  const up = u32(nodes + 4 * h.nodes, h.nodes);
  const parent = new Int32Array(h.nodes);
  for (let i = 0; i < h.nodes; i += slice) {
    callersOf(up, parent, i, Math.min(h.nodes, i + slice));
    yield;
  }
  parent[0] = -1;
  const values = nodes + 8 * h.nodes;
  // Doubles want addresses that are multiples of eight, which an odd number of nodes leaves:
  // both columns before are four bytes each.
  const self = f64(values, h.nodes);
  const functions: Functions = {
    names: h.names,
    module: u32(begin, n),
    modules: h.modules,
    file: u32(begin + 4 * n, n),
    files: h.files,
    line: u32(begin + 8 * n, n),
    kind: new Uint8Array(buffer, begin + 12 * n, n),
  };
  const calls = yield* following(
    functions,
    u32(nodes, h.nodes),
    parent,
    self,
    compared ? f64(values + 8 * h.nodes, h.nodes) : null,
  );
  return {
    ...calls,
    unit: h.unit,
    share: h.share,
    samples: h.samples,
    seconds: h.seconds,
    notes: h.notes,
    norm: h.norm ?? "",
    of: (flags & 2) !== 0 ? (h.of ?? h.nodes) : 0,
    times: h.times
      ? {
          threads: h.times.threads,
          usual: h.times.usual,
          within: h.times.within,
          left: h.times.left,
          thread: u32(moments, m),
          node: u32(moments + 4 * m, m),
          kept: new Int32Array(buffer, moments + 8 * m, m),
          at: f64(amounts, m),
          span: f64(amounts + 8 * m, m),
          amount: f64(amounts + 16 * m, m),
        }
      : null,
    lines:
      l > 0
        ? {
            fn: u32(lines, l),
            line: u32(lines + 4 * l, l),
            self: f64(lines + 8 * l, l),
            total: f64(lines + 16 * l, l),
          }
        : null,
  };
}

function callersOf(up: Uint32Array, parent: Int32Array, from: number, to: number): void {
  for (let i = from; i < to; i++) parent[i] = i - up[i]!;
}

/** Works out all that follows from nodes in the order of a walk. */
export function callsOf(
  functions: Functions,
  fn: Uint32Array,
  parent: Int32Array,
  self: Float64Array,
  beforeSelf: Float64Array | null = null,
): Calls {
  return atOnce(following(functions, fn, parent, self, beforeSelf));
}

// Two passes in all, one from the leaves and one from the root: a million nodes have to be there
// before somebody notices.
function* following(
  functions: Functions,
  fn: Uint32Array,
  parent: Int32Array,
  self: Float64Array,
  beforeSelf: Float64Array | null,
): Work<Calls> {
  const n = fn.length;
  const depth = new Uint32Array(n);
  const end = new Uint32Array(n);
  const left = new Float64Array(n);
  const total = self.slice();
  yield;
  for (let to = n; to > 1; to -= slice) {
    endsAndTotals(parent, end, total, Math.max(1, to - slice), to);
    yield;
  }
  if (n > 0 && end[0] === 0) end[0] = 1;
  let deepest = 0;
  for (let from = 1; from < n; from += slice) {
    deepest = Math.max(
      deepest,
      depthsAndEdges(parent, end, total, depth, left, from, Math.min(n, from + slice)),
    );
    yield;
  }
  let before: Calls["before"] = null;
  if (beforeSelf) {
    before = { self: beforeSelf, total: beforeSelf.slice() };
    for (let to = n; to > 1; to -= slice) {
      sums(before.total, parent, Math.max(1, to - slice), to);
      yield;
    }
  }
  return { functions, fn, parent, depth, end, self, total, left, before, deepest };
}

/** From the last node to the first: what all below has is there before the node's turn comes. */
function endsAndTotals(
  parent: Int32Array,
  end: Uint32Array,
  total: Float64Array,
  from: number,
  to: number,
): void {
  for (let i = to - 1; i >= from; i--) {
    if (end[i] === 0) end[i] = i + 1;
    const p = parent[i]!;
    total[p]! += total[i]!;
    // What a node calls comes last to first: the last one's end is the caller's.
    if (end[p] === 0) end[p] = end[i]!;
  }
}

/**
 * From the first node to the last: what a node calls stands at its left edge, one beside the other;
 * what is the node's own is to the right of them. Returns the depth of the deepest.
 */
function depthsAndEdges(
  parent: Int32Array,
  end: Uint32Array,
  total: Float64Array,
  depth: Uint32Array,
  left: Float64Array,
  from: number,
  to: number,
): number {
  const n = parent.length;
  let deepest = 0;
  for (let i = from; i < to; i++) {
    const p = parent[i]!;
    const d = depth[p]! + 1;
    depth[i] = d;
    if (d > deepest) deepest = d;
    if (p === i - 1) left[i] = left[p]!;
    const next = end[i]!;
    if (next < n && parent[next] === p) left[next] = left[i]! + total[i]!;
  }
  return deepest;
}

function sums(total: Float64Array, parent: Int32Array, from: number, to: number): void {
  for (let i = to - 1; i >= from; i--) total[parent[i]!]! += total[i]!;
}

/** Name of a node's function. */
export function nameOf(c: Calls, node: number): string {
  return c.functions.names[c.fn[node]!] ?? "";
}

/** What a function is of, in words: "program", "kernel" ... */
export function kindOf(f: Functions, fn: number): Kind {
  return kinds[f.kind[fn]!] ?? "program";
}

/** Where its code is: "libc.so.6", "kernel", "main.c:12"; "" not known. */
export function placeOf(f: Functions, fn: number): string {
  const module = f.modules[f.module[fn]!] ?? "";
  const file = f.files[f.file[fn]!] ?? "";
  const line = f.line[fn]! > 0 ? `:${f.line[fn]}` : "";
  return file === "" ? module : module === "" ? file + line : `${module} ${file}${line}`;
}
