// What is made of a profile's calls: the table of functions, what a search matches, a part of the
// calls, calls merged anew.

import { type Calls, callsOf, type Functions } from "./profile";

/** The table of functions: columns by function. The root has none of it. */
export interface Rows {
  /** In the function itself. */
  self: Float64Array;
  /** With what it calls; a function that calls itself counts once. */
  total: Float64Array;
  /** Of a comparison: what was before. */
  before: { self: Float64Array; total: Float64Array } | null;
}

/** Amounts by function. */
export function rowsOf(c: Calls): Rows {
  const n = c.functions.names.length;
  const out: Rows = {
    self: new Float64Array(n),
    total: new Float64Array(n),
    before: c.before ? { self: new Float64Array(n), total: new Float64Array(n) } : null,
  };
  const until = new Uint32Array(n); // end of the outermost call of each function
  for (let i = 1; i < c.fn.length; i++) {
    const f = c.fn[i]!;
    out.self[f]! += c.self[i]!;
    if (out.before) out.before.self[f]! += c.before!.self[i]!;
    if (i < until[f]!) continue;
    until[f] = c.end[i]!;
    out.total[f]! += c.total[i]!;
    if (out.before) out.before.total[f]! += c.before!.total[i]!;
  }
  return out;
}

/**
 * A search: text that names or modules have in them, whatever the case, or /a pattern/; null when
 * the pattern is none.
 */
export function matcher(text: string): ((name: string) => boolean) | null {
  const pattern = /^\/(.+)\/?$/s.exec(text);
  if (pattern) {
    try {
      const re = new RegExp(pattern[1]!.replace(/\/$/, ""), "i");
      return (name) => re.test(name);
    } catch {
      return null;
    }
  }
  const want = text.toLowerCase();
  return (name) => name.toLowerCase().includes(want);
}

/** Which functions a search finds, by name or by module: 1 for each. */
export function foundIn(f: Functions, match: (name: string) => boolean): Uint8Array {
  const modules = f.modules.map((m) => m !== "" && match(m));
  const out = new Uint8Array(f.names.length);
  for (let i = 1; i < out.length; i++) out[i] = modules[f.module[i]!] || match(f.names[i]!) ? 1 : 0;
  return out;
}

/** How much of the whole is in what was found, with all that it calls; each sample once. */
export function matched(c: Calls, found: Uint8Array): number {
  let sum = 0;
  for (let i = 1; i < c.fn.length; ) {
    if (found[c.fn[i]!]) {
      sum += c.total[i]!;
      i = c.end[i]!;
    } else i++;
  }
  return sum;
}

/**
 * The calls whose stacks have a function of each of the groups, and none of the others; amounts are
 * theirs alone.
 */
export function narrowed(c: Calls, only: readonly Uint8Array[], not: readonly Uint8Array[]): Calls {
  const of = stacksWith(c, only, not);
  return kept(c, (i) => of[i] === 1);
}

/** Of each node whether its stack has a function of each of the groups, and none of the others. */
export function stacksWith(
  c: Calls,
  only: readonly Uint8Array[],
  not: readonly Uint8Array[],
): Uint8Array {
  const all = 2 ** only.length - 1;
  const has = new Uint32Array(c.fn.length); // groups in the stack; the top bit: other groups
  const out = 0x80000000;
  for (let i = 1; i < has.length; i++) {
    const f = c.fn[i]!;
    let h = has[c.parent[i]!]!;
    for (let g = 0; g < only.length; g++) if (only[g]![f]) h |= 1 << g;
    for (const g of not) if (g[f]) h |= out;
    has[i] = h;
  }
  return Uint8Array.from(has, (h) => ((h & all) === all && h < out ? 1 : 0));
}

/** The calls without the stacks that end in certain functions. */
export function without(c: Calls, leaves: Uint8Array): Calls {
  return kept(c, (i) => leaves[c.fn[i]!] === 0);
}

/** The calls with the own amounts of some nodes alone; what is left with nothing is left out. */
function kept(c: Calls, keeps: (node: number) => boolean): Calls {
  const n = c.fn.length;
  const keep = new Uint8Array(n);
  const own = new Uint8Array(n);
  for (let i = n - 1; i >= 0; i--) {
    if (keeps(i)) own[i] = 1;
    if (own[i] && (c.self[i]! > 0 || (c.before && c.before.self[i]! > 0))) keep[i] = 1;
    if (keep[i] && i > 0) keep[c.parent[i]!] = 1;
  }
  keep[0] = 1;
  const place = new Int32Array(n);
  let m = 0;
  for (let i = 0; i < n; i++) if (keep[i]) place[i] = m++;
  const fn = new Uint32Array(m);
  const parent = new Int32Array(m);
  const self = new Float64Array(m);
  const before = c.before ? new Float64Array(m) : null;
  for (let i = 0, j = 0; i < n; i++) {
    if (!keep[i]) continue;
    fn[j] = c.fn[i]!;
    parent[j] = i === 0 ? -1 : place[c.parent[i]!]!;
    if (own[i]) {
      self[j] = c.self[i]!;
      if (before) before[j] = c.before!.self[i]!;
    }
    j++;
  }
  return callsOf(c.functions, fn, parent, self, before);
}

/** Makes calls, stack by stack: equal calls become one. */
export class Merger {
  private fn = new Uint32Array(1024);
  private parent = new Int32Array(1024);
  private self = new Float64Array(1024);
  private before: Float64Array | null;
  private size = 1;
  private slots = new Int32Array(4096); // nodes by caller and function; 0: free

  constructor(
    private readonly functions: Functions,
    compared: boolean,
  ) {
    this.parent[0] = -1;
    this.before = compared ? new Float64Array(1024) : null;
  }

  /** The call of a function from another call, made when it is new. */
  child(parent: number, fn: number): number {
    const mask = this.slots.length - 1;
    let at = this.slot(parent, fn, mask);
    for (; this.slots[at] !== 0; at = (at + 1) & mask) {
      const node = this.slots[at]!;
      if (this.parent[node] === parent && this.fn[node] === fn) return node;
    }
    const node = this.size++;
    if (node === this.fn.length) {
      const grown = <T extends Uint32Array | Int32Array | Float64Array>(a: T): T => {
        const b = new (a.constructor as new (n: number) => T)(2 * a.length);
        b.set(a as never);
        return b;
      };
      this.fn = grown(this.fn);
      this.parent = grown(this.parent);
      this.self = grown(this.self);
      if (this.before) this.before = grown(this.before);
    }
    this.fn[node] = fn;
    this.parent[node] = parent;
    this.slots[at] = node;
    if (this.size * 2 > this.slots.length) this.grow();
    return node;
  }

  add(node: number, self: number, before: number): void {
    this.self[node]! += self;
    if (this.before) this.before[node]! += before;
  }

  private slot(parent: number, fn: number, mask: number): number {
    const h = Math.imul(parent, 0x9e3779b1) ^ Math.imul(fn + 1, 0x85ebca6b);
    return (h ^ (h >>> 15)) & mask;
  }

  private grow(): void {
    const mask = 2 * this.slots.length - 1;
    this.slots = new Int32Array(mask + 1);
    for (let node = 1; node < this.size; node++) {
      let at = this.slot(this.parent[node]!, this.fn[node]!, mask);
      while (this.slots[at] !== 0) at = (at + 1) & mask;
      this.slots[at] = node;
    }
  }

  /** The calls in the order of a walk, those that one calls by name. */
  calls(): Calls {
    const n = this.size;
    const rank = ranks(this.functions, this.fn.subarray(1, n));
    const from = new Uint32Array(n + 1);
    for (let i = 1; i < n; i++) from[this.parent[i]! + 1]!++;
    for (let i = 0; i < n; i++) from[i + 1]! += from[i]!;
    const list = new Uint32Array(n);
    const next = from.slice();
    for (let i = 1; i < n; i++) list[next[this.parent[i]!]!++] = i;
    const fn = new Uint32Array(n);
    const parent = new Int32Array(n);
    const self = new Float64Array(n);
    const before = this.before ? new Float64Array(n) : null;
    const place = new Int32Array(n);
    const todo = [0];
    for (let m = 0; todo.length > 0; m++) {
      const i = todo.pop()!;
      place[i] = m;
      fn[m] = this.fn[i]!;
      parent[m] = i === 0 ? -1 : place[this.parent[i]!]!;
      self[m] = this.self[i]!;
      if (before) before[m] = this.before![i]!;
      const own = list.subarray(from[i]!, from[i + 1]!);
      if (own.length > 1) own.sort((a, b) => rank[this.fn[b]!]! - rank[this.fn[a]!]!);
      for (const child of own) todo.push(child);
    }
    return callsOf(this.functions, fn, parent, self, before);
  }
}

/** Each function's place in the order of names, of those that are used. */
function ranks(f: Functions, used: Uint32Array): Uint32Array {
  const out = new Uint32Array(f.names.length);
  const list: number[] = [];
  for (const i of used) {
    if (out[i] === 0) {
      out[i] = 1;
      list.push(i);
    }
  }
  const names = f.names;
  list.sort((a, b) => (names[a]! < names[b]! ? -1 : names[a]! > names[b]! ? 1 : a - b));
  for (let i = 0; i < list.length; i++) out[list[i]!] = i + 1;
  return out;
}

/**
 * The calls with each run of functions of one module as one, named as the module. What is of none
 * stays as it is.
 */
export function byModule(c: Calls): Calls {
  const f = c.functions;
  const n = f.names.length;
  // Behind the functions stands one for each module and kind.
  const names = [...f.names];
  const module: number[] = [...f.module];
  const kind: number[] = [...f.kind];
  const to = new Uint32Array(n);
  const of = new Map<string, number>();
  for (let i = 1; i < n; i++) {
    const m = f.module[i]!;
    const k = f.kind[i] === 3 ? 0 : f.kind[i]!;
    const name = f.modules[m]! !== "" ? f.modules[m]! : k === 1 ? "kernel" : "";
    if (name === "" || k === 4) {
      to[i] = i;
      continue;
    }
    const key = `${k} ${name}`;
    let at = of.get(key);
    if (at === undefined) {
      at = names.length;
      of.set(key, at);
      names.push(name);
      module.push(m);
      kind.push(k);
    }
    to[i] = at;
  }
  const functions: Functions = {
    names,
    module: Uint32Array.from(module),
    modules: f.modules,
    file: new Uint32Array(names.length),
    files: [""],
    line: new Uint32Array(names.length),
    kind: Uint8Array.from(kind),
  };
  const merged = new Merger(functions, c.before !== null);
  const at = new Int32Array(c.fn.length);
  merged.add(0, c.self[0]!, c.before?.self[0] ?? 0);
  const last = new Uint32Array(c.fn.length);
  for (let i = 1; i < c.fn.length; i++) {
    const p = c.parent[i]!;
    const g = to[c.fn[i]!]!;
    last[i] = g;
    at[i] = p > 0 && last[p] === g && g >= n ? at[p]! : merged.child(at[p]!, g);
    merged.add(at[i]!, c.self[i]!, c.before?.self[i] ?? 0);
  }
  return merged.calls();
}

/**
 * What functions call, merged over all places where they are called from: below the root each of
 * them.
 */
export function callees(c: Calls, fn: Uint8Array): Calls {
  const out = new Merger(c.functions, c.before !== null);
  const at = new Int32Array(c.fn.length);
  let end = 0;
  for (let i = 1; i < c.fn.length; i++) {
    if (i < end) at[i] = out.child(at[c.parent[i]!]!, c.fn[i]!);
    else if (fn[c.fn[i]!]) {
      at[i] = out.child(0, c.fn[i]!);
      end = c.end[i]!;
    } else continue;
    out.add(at[i]!, c.self[i]!, c.before?.self[i] ?? 0);
  }
  return out.calls();
}

/**
 * Who calls functions: below the root each of them, below it its callers, and theirs. An amount is
 * that of the function with what it calls.
 */
export function callers(c: Calls, fn: Uint8Array): Calls {
  const out = new Merger(c.functions, c.before !== null);
  for (let i = 1; i < c.fn.length; ) {
    if (!fn[c.fn[i]!]) {
      i++;
      continue;
    }
    let at = 0;
    for (let p = i; p > 0; p = c.parent[p]!) at = out.child(at, c.fn[p]!);
    out.add(at, c.total[i]!, c.before?.total[i] ?? 0);
    i = c.end[i]!;
  }
  return out.calls();
}

/**
 * All stacks inverted: below the root the functions that use the time, below them their
 * callers.
 */
export function reversed(c: Calls): Calls {
  const out = new Merger(c.functions, c.before !== null);
  out.add(0, c.self[0]!, c.before?.self[0] ?? 0);
  for (let i = 1; i < c.fn.length; i++) {
    const before = c.before?.self[i] ?? 0;
    if (!(c.self[i]! > 0) && !(before > 0)) continue;
    let at = 0;
    for (let p = i; p > 0; p = c.parent[p]!) at = out.child(at, c.fn[p]!);
    out.add(at, c.self[i]!, before);
  }
  return out.calls();
}

/** The ways that were asked for, by calls: to find one takes a walk over all. */
const ways = new WeakMap<Calls, Map<string, number>>();

function waysIn(c: Calls): Map<string, number> {
  let known = ways.get(c);
  if (!known) {
    known = new Map();
    ways.set(c, known);
  }
  return known;
}

/** A word for the way to a node: the same in every profile that has the same way. */
export function wayOf(c: Calls, node: number): string {
  const path: number[] = [];
  for (let i = node; i > 0; i = c.parent[i]!) path.push(c.fn[i]!);
  let h = 0;
  for (const f of path.reverse()) h = stirred(h, hash(c.functions.names[f]!));
  const way = node > 0 ? (h >>> 0).toString(36) : "";
  const known = waysIn(c);
  if (!known.has(way)) known.set(way, node);
  return way;
}

/** The node that a way leads to; -1 there is none here. The root is the way "". */
export function nodeOf(c: Calls, way: string): number {
  if (way === "") return 0;
  const known = waysIn(c);
  let node = known.get(way);
  if (node === undefined) {
    node = walkTo(c, Number.parseInt(way, 36));
    known.set(way, node);
  }
  return node;
}

function walkTo(c: Calls, want: number): number {
  const names = c.functions.names.map(hash);
  const h = new Uint32Array(c.fn.length);
  for (let i = 1; i < h.length; i++) {
    h[i] = stirred(h[c.parent[i]!]!, names[c.fn[i]!]!);
    if (h[i] === want) return i;
  }
  return -1;
}

function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

function stirred(h: number, by: number): number {
  const x = Math.imul(h ^ by, 0x9e3779b1);
  return (x ^ (x >>> 15) ^ Math.imul(by, 0x85ebca6b)) >>> 0;
}
