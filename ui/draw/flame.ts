// The flame graph on a canvas: a row of pixels for each depth of calls, stretched to the height of
// a row, with names on what is wide enough. What is narrower than half a pixel is not walked into.
// Draws in device pixels and knows neither the page nor the server.

import type { Calls } from "../data/profile";
import type { Look } from "./look";
import type { Surface } from "./surface";

/** The height of a row, in CSS pixels. */
export const rowHeight = 18;

/** The stretch of the whole that is in sight, in the profile's amounts. */
export interface Span {
  from: number;
  to: number;
}

/** What a flame graph shows. */
export interface FlameScene {
  calls: Calls;
  /** In sight. */
  span: Span;
  /** The colour of each function, or of each node: 0xAABBGGRR. */
  colours: Uint32Array;
  /** The colours are those of nodes. */
  byNode: boolean;
  /** Of each function whether it was found; null: nothing is searched for. */
  found: Uint8Array | null;
  /** The colour of what was found, and what all else is mixed with: 0xAABBGGRR. */
  foundColour: number;
  /** Of many calls that are too narrow to be drawn. */
  narrow: number;
  /** The root at the bottom. */
  up: boolean;
  /** The root has no row: the calls below it say enough. */
  bare: boolean;
  /** How far the rows are scrolled, in device pixels. */
  scroll: number;
  /** The node that is chosen, and the one that is pointed at; -1 none. */
  chosen: number;
  hover: number;
}

/** Nodes that are wide enough for a name, with the pixels that they cover. */
export interface Labels {
  node: number[];
  from: number[];
  to: number[];
}

/** What is narrower is not drawn, in pixels. */
const least = 0.5;

/** The last node that begins at or before an amount: its callers are all that cover the amount. */
export function lastAt(left: Float64Array, amount: number): number {
  let low = 0;
  let high = left.length;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (left[mid]! <= amount) low = mid;
    else high = mid;
  }
  return low;
}

/**
 * Colours the pixels of rows first to end, `width` pixels each, into out, and lists the nodes that
 * are at least `wide` pixels wide. Returns how many nodes were drawn. All in one function, of
 * numbers alone: it is called for each frame of a zoom.
 */
export function paint(
  c: Calls,
  span: Span,
  width: number,
  first: number,
  end: number,
  colour: (node: number) => number,
  narrow: number,
  gap: number,
  wide: number,
  out: Uint32Array,
  labels: Labels,
): number {
  const { left, total, depth, end: after, parent, fn } = c;
  const from = span.from;
  const until = span.to;
  const k = width / (until - from);
  const thin = least / k; // the amount of what is not drawn
  let drawn = 0;
  const one = (i: number): boolean => {
    const x0 = (left[i]! - span.from) * k;
    const w = total[i]! * k;
    const row = depth[i]!;
    const run = w >= least && fn[i] === 0 && i > 0; // of narrow calls, in a sketch
    if (w < least || run) {
      if (row >= first && w > 0) {
        const to = Math.min(width - 1, run ? Math.ceil(x0 + w) - 1 : x0);
        for (let x = Math.max(0, Math.floor(x0)); x <= to; x++) {
          const at = (row - first) * width + x;
          if (out[at] === 0) out[at] = narrow;
        }
      }
      return false;
    }
    if (row < first) return true;
    let a = Math.round(x0);
    let b = Math.round(x0 + w);
    if (b <= a) b = a + 1;
    if (a < 0) a = 0;
    const open = b >= width;
    if (open) b = width;
    if (b <= a) return true;
    const to = b - a > 2 * gap && !open ? b - gap : b;
    const at = (row - first) * width;
    out.fill(colour(i), at + a, at + to);
    drawn++;
    if (b - a >= wide) {
      labels.node.push(i);
      labels.from.push(a);
      labels.to.push(to);
    }
    return true;
  };
  // Those that the left edge goes through, and then all that begin to the right of it.
  const n = left.length;
  let i = lastAt(left, span.from) + 1;
  let top = -1; // the outermost of them that is too narrow
  for (let j = i - 1; j >= 0; j = parent[j]!) {
    if (total[j]! * k < least) top = j;
    else if (left[j]! + total[j]! > span.from && depth[j]! < end) one(j);
  }
  if (top >= 0) {
    i = after[top]!;
    if (left[top]! + total[top]! > span.from && depth[top]! < end) one(top);
  }
  // Most are too narrow, and seen before anything has made this fast: they get by with the least
  // that there is to do.
  while (i < n) {
    const l = left[i]!;
    if (l >= until) break;
    const row = depth[i]!;
    const t = total[i]!;
    if (t < thin) {
      if (row >= first && row < end && t > 0) {
        const at = (row - first) * width + Math.min(width - 1, Math.floor((l - from) * k));
        if (out[at] === 0) out[at] = narrow;
      }
      i = after[i]!;
    } else if (row >= end || !one(i)) i = after[i]!;
    else i++;
  }
  return drawn;
}

/**
 * How many rows the calls in sight have, the root's among them: those of calls that are wide enough
 * to be drawn.
 */
export function rowsIn(c: Calls, span: Span, width: number): number {
  const { left, total, depth, end: after, fn } = c;
  const k = width / (span.to - span.from);
  let most = 0;
  let i = lastAt(left, span.from) + 1;
  for (let j = i - 1; j > 0; j = c.parent[j]!) {
    if (total[j]! * k < least) {
      i = after[j]!;
      most = 0;
    } else if (left[j]! + total[j]! > span.from && (fn[j] !== 0 || j === 0))
      most = Math.max(most, depth[j]!);
  }
  while (i < left.length && left[i]! < span.to) {
    if (total[i]! * k < least || (fn[i] === 0 && i > 0)) i = after[i]!;
    else {
      if (depth[i]! > most) most = depth[i]!;
      i++;
    }
  }
  return most + 1;
}

/** The node at a place: a pixel from the left, and a depth; -1 none. */
export function nodeAt(c: Calls, span: Span, width: number, x: number, row: number): number {
  const amount = span.from + (x / width) * (span.to - span.from);
  let i = lastAt(c.left, amount);
  while (i >= 0 && (c.left[i]! + c.total[i]! <= amount || c.depth[i]! > row)) i = c.parent[i]!;
  if (i < 0 || c.depth[i] !== row || (c.fn[i] === 0 && i > 0)) return -1;
  return c.total[i]! * (width / (span.to - span.from)) >= least ? i : -1;
}

/** The row at a height, in device pixels from the top of the canvas. */
export function rowAt(
  scene: Pick<FlameScene, "up" | "bare" | "scroll">,
  s: Pick<Surface, "height" | "dpr">,
  rows: number,
  y: number,
): number {
  const high = Math.round(rowHeight * s.dpr);
  const bare = scene.bare ? 1 : 0;
  const line = Math.floor((y + scene.scroll) / high);
  return bare + (scene.up ? Math.max(rows - bare, Math.floor(s.height / high)) - 1 - line : line);
}

/** How wide text is, without asking the canvas for each. */
class Widths {
  private readonly of = new Float32Array(128);
  private readonly other: number;
  constructor(ctx: CanvasRenderingContext2D) {
    for (let i = 32; i < 127; i++) this.of[i] = ctx.measureText(String.fromCharCode(i)).width;
    this.other = ctx.measureText("m").width;
  }
  char(code: number): number {
    return code < 128 ? this.of[code]! : this.other;
  }
}
const widths = new Map<string, Widths>();

/**
 * The distinctive part of a name that is too wide: Go's without the package's path,
 * C++'s and Rust's without what they are in.
 */
export function shortName(name: string): string {
  const cut = name.search(/[<([{]/);
  const head = cut > 0 ? name.slice(0, cut) : name;
  const slash = head.lastIndexOf("/");
  const colons = head.lastIndexOf("::");
  const from = Math.max(slash + 1, colons >= 0 ? colons + 2 : 0);
  return from > 0 && from < head.length ? name.slice(from) : name;
}

/**
 * As much of a text as fits, with "…" where it was cut; "" where that says nothing.
 */
export function fitted(text: string, space: number, width: (code: number) => number): string {
  let used = 0;
  const dots = width(0x2026);
  let cut = -1; // as far as it goes with the dots behind
  let cutAt = 0;
  for (let i = 0; i < text.length; i++) {
    used += width(text.charCodeAt(i));
    if (used + dots <= space) {
      cut = i + 1;
      cutAt = used;
    }
    if (used > space) return cut >= 2 && cutAt > 0 ? `${text.slice(0, cut)}…` : "";
  }
  return text;
}

let layer: OffscreenCanvas | null = null;

/** Draws the scene. Returns how many calls it shows. */
export function drawFlame(s: Surface, scene: FlameScene, rows: number, look: Look): number {
  const { ctx, dpr, width } = s;
  const high = Math.round(rowHeight * dpr);
  const gap = Math.max(1, Math.round(dpr));
  const visible = Math.ceil(s.height / high) + 1;
  // With the root at the bottom, few rows stand at the bottom too.
  const bare = scene.bare ? 1 : 0;
  const all = scene.up ? Math.max(rows - bare, Math.floor(s.height / high)) : rows - bare;
  const firstLine = Math.floor(scene.scroll / high);
  const endLine = Math.min(all, firstLine + visible);
  const first = bare + Math.max(0, scene.up ? all - endLine : firstLine);
  const end = bare + (scene.up ? all - firstLine : endLine);
  const lines = Math.max(0, end - first);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  if (lines === 0 || width < 2 || !(scene.span.to > scene.span.from)) return 0;
  const { calls, found, colours } = scene;
  const fn = calls.fn;
  const plain = scene.byNode ? (i: number) => colours[i]! : (i: number) => colours[fn[i]!]!;
  const ground = bytes(look.ground);
  const colour = found
    ? (i: number) => (found[fn[i]!] ? scene.foundColour : faded(plain(i), ground))
    : plain;
  const image = new ImageData(width, lines);
  const pixels = new Uint32Array(image.data.buffer);
  const labels: Labels = { node: [], from: [], to: [] };
  const drawn = paint(
    calls,
    scene.span,
    width,
    first,
    end,
    colour,
    scene.narrow,
    gap,
    22 * dpr,
    pixels,
    labels,
  );
  if (!layer || layer.width < width || layer.height < lines)
    layer = new OffscreenCanvas(width, Math.max(lines, layer?.height ?? 0));
  const own = layer.getContext("2d")!;
  own.putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  const y = (row: number) => (scene.up ? all - 1 - (row - bare) : row - bare) * high - scene.scroll;
  for (let row = first; row < end; row++)
    ctx.drawImage(layer, 0, row - first, width, 1, 0, y(row), width, high - gap);
  // Names.
  const font = `${Math.round(11.5 * dpr * 2) / 2}px system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif`;
  ctx.font = font;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  let w = widths.get(font);
  if (!w) {
    w = new Widths(ctx);
    widths.set(font, w);
  }
  const measure = (code: number) => w.char(code);
  const pad = Math.round(4 * dpr);
  const half = (high - gap) / 2 + Math.round(0.5 * dpr);
  const names = calls.functions.names;
  for (let l = 0; l < labels.node.length; l++) {
    const node = labels.node[l]!;
    const name = node === 0 ? "all" : names[fn[node]!]!;
    const space = labels.to[l]! - labels.from[l]! - 2 * pad + 2;
    let text = fitted(name, space, measure);
    if (text !== name) text = fitted(shortName(name), space, measure);
    if (text === "") continue;
    ctx.fillStyle = found && !found[fn[node]!] ? look.dim : inkOn(colour(node));
    ctx.fillText(text, labels.from[l]! + pad, y(calls.depth[node]!) + half);
  }
  const frame = (node: number, style: string, thick: number) => {
    if (node < 0 || calls.depth[node]! < first || calls.depth[node]! >= end) return;
    const k = width / (scene.span.to - scene.span.from);
    const a = Math.max(0, Math.round((calls.left[node]! - scene.span.from) * k));
    const b = Math.min(
      width,
      Math.round((calls.left[node]! + calls.total[node]! - scene.span.from) * k),
    );
    if (b < 0 || a > width || b < a) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = thick;
    ctx.strokeRect(
      a + thick / 2,
      y(calls.depth[node]!) + thick / 2,
      Math.max(thick, b - a - gap - thick),
      high - gap - thick,
    );
  };
  frame(scene.hover, look.text, gap);
  frame(scene.chosen, look.accent, 2 * gap);
  return drawn;
}

/** A colour as a canvas says it, #rrggbb, as the bytes of a pixel: 0xAABBGGRR. */
export function bytes(colour: string): number {
  const n = Number.parseInt(colour.replace("#", "").slice(0, 6), 16);
  return (0xff000000 | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

/** A colour two thirds of the way to the ground. */
export function faded(colour: number, ground: number): number {
  const mix = (shift: number) =>
    Math.round(((colour >>> shift) & 255) * 0.3 + ((ground >>> shift) & 255) * 0.7);
  return (0xff000000 | (mix(16) << 16) | (mix(8) << 8) | mix(0)) >>> 0;
}

/** What can be read on a colour: nearly black, or nearly white. */
export function inkOn(colour: number): string {
  return luminance(colour) > 0.18 ? "#0b0e11" : "#f4f6f8";
}

/** Relative luminance, as contrast is worked out of it: 0 to 1. */
export function luminance(colour: number): number {
  const part = (shift: number) => {
    const v = ((colour >>> shift) & 255) / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(0) + 0.7152 * part(8) + 0.0722 * part(16);
}
