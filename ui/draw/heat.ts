// Many rows, or the buckets of a distribution, over time: a line of cells each, its colour the
// value. Rows that are too many for lines can still be distinguished, and what was not measured has
// no colour at all.

import type { Column } from "../data/columns";
import { frame } from "./ground";
import type { Look } from "./look";
import { type Box, type Frame, Places, plotOf } from "./plot";
import type { Surface } from "./surface";

/** What a heat map shows. */
export interface Heat extends Frame {
  /** The first on top. */
  rows: readonly Column[];
  /** The value that has the last colour; what is above has it too. */
  top: number;
  /** Above 0: the colours go by the logarithm, from this value on. */
  low?: number;
}

// Cividis (Nuñez, Anderton, Renslow 2018): even steps of lightness, the same to those who see fewer
// colours.
const cividis = [
  0x00204d, 0x00336f, 0x39486b, 0x575c6d, 0x707173, 0x8a8779, 0xa69d75, 0xc4b56c, 0xe4cf5b,
  0xffea46,
];

/**
 * The colour of a share from 0 to 1, as red, green, blue in 0xBBGGRR: the order in which a canvas
 * has its bytes.
 */
export function heatColour(share: number, dark: boolean): number {
  const t = Math.min(1, Math.max(0, share));
  const s = t * (cividis.length - 1);
  const at = dark ? s : cividis.length - 1 - s;
  // On white the light end of the colours is loud where there is nothing: the little is thinned
  // with the ground.
  const ink = dark ? 1 : Math.min(1, 0.1 + 3 * t);
  const i = Math.min(cividis.length - 2, Math.floor(at));
  const f = at - i;
  const a = cividis[i]!;
  const b = cividis[i + 1]!;
  const mix = (shift: number): number =>
    Math.round((((a >> shift) & 255) * (1 - f) + ((b >> shift) & 255) * f) * ink + 252 * (1 - ink));
  return (mix(0) << 16) | (mix(8) << 8) | mix(16);
}

/**
 * Pixels of a matrix, a row a line and a cell a pixel; what is not known is transparent. A measured
 * zero has the first colour.
 */
export function heatPixels(
  rows: readonly Column[],
  first: number,
  end: number,
  top: number,
  dark: boolean,
  low = 0,
): Uint32Array<ArrayBuffer> {
  const width = Math.max(0, end - first);
  const out = new Uint32Array(width * rows.length);
  const steps = 256;
  const colours = Uint32Array.from(
    { length: steps + 1 },
    (_, i) => (0xff000000 | heatColour(i / steps, dark)) >>> 0,
  );
  const span = low > 0 && top > low ? Math.log(top / low) : 0;
  const share = (v: number): number => (span > 0 ? Math.log(v / low) / span : v / top);
  rows.forEach((row, r) => {
    for (let c = 0; c < width; c++) {
      const v = row[first + c]!;
      if (Number.isNaN(v)) continue;
      // Anything more than nothing differs from nothing.
      const step =
        top > 0 && v > 0 ? Math.max(1, Math.min(steps, Math.round(share(v) * steps))) : 0;
      out[r * width + c] = colours[step]!;
    }
  });
  return out;
}

/** Draws a matrix of pixels into a rectangle of the canvas, each pixel as a sharp cell. */
export function paint(
  ctx: CanvasRenderingContext2D,
  pixels: Uint32Array<ArrayBuffer>,
  width: number,
  height: number,
  into: Box,
): void {
  if (width < 1 || height < 1) return;
  const layer = new OffscreenCanvas(width, height);
  layer
    .getContext("2d")!
    .putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(layer, into.left, into.top, into.width, into.height);
}

/** How high each row is, in device pixels: whole ones, so that all are the same. */
export function rowHeight(box: Box, rows: number, dpr: number): number {
  return Math.max(1, Math.min(Math.floor(24 * dpr), Math.floor(box.height / Math.max(1, rows))));
}

/** Which row lies at a height, in device pixels from the top of the canvas; -1: none. */
export function rowAt(box: Box, rows: number, dpr: number, y: number): number {
  const r = Math.floor((y - box.top) / rowHeight(box, rows, dpr));
  return r >= 0 && r < rows ? r : -1;
}

/** Whether a colour is nearer to black than to white. */
export function isDark(colour: string): boolean {
  const n = Number.parseInt(colour.replace("#", "").slice(0, 6), 16);
  return ((n >> 16) & 255) * 0.3 + ((n >> 8) & 255) * 0.59 + (n & 255) * 0.11 < 128;
}

/**
 * Draws the heat map. The scale of its colours stands where graphs have the values: the top at the
 * top.
 */
export function drawHeat(
  s: Surface,
  gutter: number,
  heat: Heat,
  labels: { top: string; unit: string; low?: string },
  look: Look,
): void {
  const { ctx, dpr } = s;
  const box = plotOf(s, gutter);
  const map = new Places(box, { ...heat, low: 0, high: 1 });
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  frame(s, box, map, heat, look);
  const first = Math.max(0, Math.floor((heat.from - heat.start) / heat.step));
  const end = Math.min(heat.elapsed.length, Math.ceil((heat.to - heat.start) / heat.step));
  const dark = isDark(look.ground);
  const high = rowHeight(box, heat.rows.length, dpr);
  const fitting = Math.min(heat.rows.length, Math.floor(box.height / high));
  if (end > first && fitting > 0) {
    const pixels = heatPixels(heat.rows.slice(0, fitting), first, end, heat.top, dark, heat.low);
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    const x = map.x(heat.start + first * heat.step);
    const width = map.x(heat.start + end * heat.step) - x;
    paint(ctx, pixels, end - first, fitting, {
      left: x,
      top: box.top,
      width,
      height: fitting * high,
    });
    if (high >= 6 * dpr) {
      ctx.fillStyle = look.ground;
      for (let r = 1; r < fitting; r++)
        ctx.fillRect(box.left, box.top + r * high, box.width, Math.max(1, Math.round(dpr)));
    }
    ctx.restore();
  }
  scale(s, box, labels, look, dark);
}

function scale(
  s: Surface,
  box: Box,
  labels: { top: string; unit: string; low?: string },
  look: Look,
  dark: boolean,
): void {
  const { ctx, dpr } = s;
  const width = Math.round(8 * dpr);
  const left = box.left - width - Math.round(5 * dpr);
  const steps = Math.max(2, Math.floor(box.height / 2));
  for (let i = 0; i < steps; i++) {
    const c = heatColour(1 - i / (steps - 1), dark);
    ctx.fillStyle = `rgb(${c & 255} ${(c >> 8) & 255} ${(c >> 16) & 255})`;
    ctx.fillRect(left, box.top + i * 2, width, 2);
  }
  ctx.fillStyle = look.dim;
  ctx.font = `${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.fillText(labels.top, left - 4 * dpr, box.top + 7 * dpr);
  // The panel has the unit too: one that is too long is not cut here.
  if (ctx.measureText(labels.unit).width < left - 4 * dpr)
    ctx.fillText(labels.unit, left - 4 * dpr, box.top + 21 * dpr);
  ctx.fillText(labels.low ?? "0", left - 4 * dpr, box.top + box.height - 7 * dpr);
}
