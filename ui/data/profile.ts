// Profiles as typed arrays: nodes in the order of a walk, so that what a node calls, and all below, stands right behind it.

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
 * A tree of calls. Node 0 is the root, which no function stands for; callers stand before what they call, and all that is below node n
 * is n+1 .. end[n]-1.
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
  /** The total of all that stands to the left of a node: it covers left[n] to left[n]+total[n]. Never less than that of the node before. */
  left: Float64Array;
  /** Of a comparison: what was before in the node itself, and with all that it calls. */
  before: { self: Float64Array; total: Float64Array } | null;
  /** Of the deepest node; the root has 0. */
  deepest: number;
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
  norm?: string;
  notes: string[];
  names: string[];
  modules: string[];
  files: string[];
}

/**
 * The binary form as a profile; docs/FORMATS.md draws it. Amounts are exact. Arrays look into the buffer where they can.
 */
export function profileOf(buffer: ArrayBuffer): Profile {
  const view = new DataView(buffer);
  if (buffer.byteLength < 12 || view.getUint32(0, false) !== 0x434c5046) throw new FormatError("this is no profile of culprit");
  const flags = view.getUint16(6, true);
  if (view.getUint8(4) !== 1 || flags > 1) throw new FormatError("this profile is of a later version: reload the page");
  const size = view.getUint32(8, true);
  if (12 + size > buffer.byteLength) throw new FormatError("the profile ends too soon");
  const h = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, size))) as Head;
  const compared = (flags & 1) !== 0;
  const begin = (12 + size + 7) & ~7;
  const nodes = (begin + h.functions * 13 + 7) & ~7;
  if (nodes + h.nodes * (compared ? 24 : 16) !== buffer.byteLength) throw new FormatError("the profile ends too soon");
  const u32 = (at: number, n: number) => new Uint32Array(buffer, at, n);
  const f64 = (at: number, n: number) => new Float64Array(buffer, at, n);
  const n = h.functions;
  const up = u32(nodes + 4 * h.nodes, h.nodes);
  const parent = new Int32Array(h.nodes);
  for (let i = 0; i < h.nodes; i++) parent[i] = i - up[i]!;
  parent[0] = -1;
  const values = nodes + 8 * h.nodes;
  // Doubles want addresses that are multiples of eight, which an odd number of nodes still gives: both columns before are four bytes each.
  const self = f64(values, h.nodes);
  return {
    ...callsOf(
      {
        names: h.names,
        module: u32(begin, n),
        modules: h.modules,
        file: u32(begin + 4 * n, n),
        files: h.files,
        line: u32(begin + 8 * n, n),
        kind: new Uint8Array(buffer, begin + 12 * n, n),
      },
      u32(nodes, h.nodes),
      parent,
      self,
      compared ? f64(values + 8 * h.nodes, h.nodes) : null,
    ),
    unit: h.unit,
    share: h.share,
    samples: h.samples,
    seconds: h.seconds,
    notes: h.notes,
    norm: h.norm ?? "",
  };
}

/** Works out all that follows from nodes in the order of a walk. */
export function callsOf(
  functions: Functions,
  fn: Uint32Array,
  parent: Int32Array,
  self: Float64Array,
  beforeSelf: Float64Array | null = null,
): Calls {
  // Two passes in all, one from the leaves and one from the root: a million nodes have to be there before somebody notices.
  const n = fn.length;
  const depth = new Uint32Array(n);
  const end = new Uint32Array(n);
  const left = new Float64Array(n);
  const total = self.slice();
  for (let i = n - 1; i > 0; i--) {
    if (end[i] === 0) end[i] = i + 1;
    const p = parent[i]!;
    total[p]! += total[i]!;
    // What a node calls comes last to first: the last one's end is the caller's.
    if (end[p] === 0) end[p] = end[i]!;
  }
  if (n > 0 && end[0] === 0) end[0] = 1;
  // What a node calls stands at its left edge, one beside the other; what is the node's own is to the right of them.
  let deepest = 0;
  for (let i = 1; i < n; i++) {
    const p = parent[i]!;
    const d = depth[p]! + 1;
    depth[i] = d;
    if (d > deepest) deepest = d;
    if (p === i - 1) left[i] = left[p]!;
    const next = end[i]!;
    if (next < n && parent[next] === p) left[next] = left[i]! + total[i]!;
  }
  return {
    functions,
    fn,
    parent,
    depth,
    end,
    self,
    total,
    left,
    before: beforeSelf ? { self: beforeSelf, total: sums(beforeSelf, parent) } : null,
    deepest,
  };
}

/** What each node has with all below. */
function sums(self: Float64Array, parent: Int32Array): Float64Array {
  const total = self.slice();
  for (let i = total.length - 1; i > 0; i--) total[parent[i]!]! += total[i]!;
  return total;
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
