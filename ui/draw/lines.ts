// Rows as lines, with the band between the least and the greatest of each cell.

import type { Column } from "../data/columns";
import { Coverage, lay, rgb } from "./fine";
import { type Line, type Places, type Scene, stairs } from "./plot";

/**
 * The path of a column: a stretch for each run without a gap. Steps or slopes, as wide as the cells
 * are.
 */
export function trace(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  values: Column,
  first: number,
  end: number,
): void {
  const w = scene.step * map.kx;
  const x0 = map.x(scene.start);
  const base = map.box.top + map.box.height;
  const { low } = scene;
  const { ky } = map;
  let open = false;
  if (w >= stairs) {
    for (let c = first; c < end; c++) {
      const v = values[c]!;
      if (Number.isNaN(v)) {
        open = false;
        continue;
      }
      const y = base - (v - low) * ky;
      if (open) ctx.lineTo(x0 + c * w, y);
      else ctx.moveTo(x0 + c * w, y);
      ctx.lineTo(x0 + (c + 1) * w, y);
      open = true;
    }
    return;
  }
  for (let c = first; c < end; c++) {
    const v = values[c]!;
    if (Number.isNaN(v)) {
      if (open) ctx.lineTo(x0 + c * w, base - (values[c - 1]! - low) * ky);
      open = false;
      continue;
    }
    const y = base - (v - low) * ky;
    if (!open) ctx.moveTo(x0 + c * w, y);
    ctx.lineTo(x0 + (c + 0.5) * w, y);
    open = true;
  }
  if (open) ctx.lineTo(x0 + end * w, base - (values[end - 1]! - low) * ky);
}

/** From this number on, hairlines are drawn once into an image of their own. */
const manyHairlines = 8;

/**
 * Draws the lines that share one grey, because there are more lines than colours. Where there are
 * about as many cells as pixels, it sets pixels, which is faster.
 */
export function hairlines(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  lines: readonly Line[],
  first: number,
  end: number,
): void {
  ctx.fillStyle = lines[0]?.colour ?? "";
  const colour = typeof ctx.fillStyle === "string" ? rgb(ctx.fillStyle) : null;
  const step = scene.step * map.kx;
  if (
    lines.length < manyHairlines ||
    step >= stairs ||
    colour === null ||
    lines.some((l) => l.colour !== lines[0]!.colour || l.dashed)
  ) {
    for (const l of lines.toReversed()) hairline(ctx, map, scene, l, first, end);
    return;
  }
  const { box } = map;
  const c = new Coverage(box.width, box.height);
  const x0 = map.x(scene.start) - box.left;
  for (const l of lines) {
    if (l.max) c.trace(l.max, first, end, x0, step, box.height, scene.low, map.ky, 0.34);
    c.trace(l.values, first, end, x0, step, box.height, scene.low, map.ky, 0.72);
  }
  lay(ctx, c, colour, box.left, box.top);
}

/** A hairline; where its cells are several measurements, a thinner one at the greatest of them. */
function hairline(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  l: Line,
  first: number,
  end: number,
): void {
  ctx.strokeStyle = l.colour;
  ctx.lineWidth = 1;
  if (l.max) {
    ctx.globalAlpha = 0.4;
    ctx.beginPath();
    trace(ctx, map, scene, l.max, first, end);
    ctx.stroke();
  }
  ctx.globalAlpha = 0.8;
  ctx.beginPath();
  trace(ctx, map, scene, l.values, first, end);
  ctx.stroke();
  ctx.globalAlpha = 1;
}

export function strong(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  l: Line,
  first: number,
  end: number,
  dpr: number,
): void {
  // Wide strokes of as many points as pixels are slow and blur: then a hairline is drawn, at its
  // neighbour's side once more.
  const dense = scene.step * map.kx < stairs;
  ctx.strokeStyle = l.colour;
  ctx.lineWidth = (dense ? 1 : Math.max(1, 1.5 * dpr)) * (l.bold ? 2 : 1);
  if (l.dashed) ctx.setLineDash([4 * dpr, 3 * dpr]);
  ctx.beginPath();
  trace(ctx, map, scene, l.values, first, end);
  ctx.stroke();
  if (dense) {
    ctx.translate(0, 0.6);
    ctx.stroke();
    ctx.translate(0, -0.6);
  }
  if (l.dashed) ctx.setLineDash([]);
}

/**
 * The area between the least and the greatest of each cell: whole columns of pixels, one at least,
 * so that a spike of a second is seen. Rectangles one by one: as one path they take seconds to
 * fill.
 */
export function band(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  l: Line,
  first: number,
  end: number,
): void {
  const w = scene.step * map.kx;
  const x0 = map.x(scene.start);
  const base = map.box.top + map.box.height;
  const edge = map.box.top;
  ctx.fillStyle = l.colour;
  ctx.globalAlpha = 0.24;
  let right = Math.round(x0 + first * w);
  for (let c = first; c < end; c++) {
    const left = right;
    right = Math.round(x0 + (c + 1) * w);
    const top = Math.max(edge, base - (l.max![c]! - scene.low) * map.ky);
    const height = base - (l.min![c]! - scene.low) * map.ky - top;
    if (height >= 0.5) ctx.fillRect(left, top, Math.max(1, right - left), height);
  }
  ctx.globalAlpha = 1;
}
