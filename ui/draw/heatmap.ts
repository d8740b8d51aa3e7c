// A heat map on a canvas: counts as colours, percentiles as lines over them, the log axis at the
// left. Draws in device pixels and knows neither the page nor the server.

import type { Column } from "../data/columns";
import { frame } from "./ground";
import { heatColour, isDark, paint } from "./heat";
import type { Look } from "./look";
import { noteLines } from "./over";
import { type Box, type Frame, Places, plotOf } from "./plot";
import type { Surface } from "./surface";

/** What a heat map shows. Values are places on the axis: numbers of buckets. */
export interface HeatScene extends Frame {
  /** counts[cell * rows + row], of the bucket first + row. */
  counts: Float64Array;
  first: number;
  rows: number;
  /** The count that has the last colour. */
  most: number;
  /** The buckets that are in sight. */
  low: number;
  high: number;
  marks: readonly { at: number; label: string }[];
  lines: readonly { name: string; values: Column; colour: string; dashed: boolean }[];
  /** Moments at which events were lost. */
  losses: readonly number[];
  /** Something is cut off at the top. */
  cut: boolean;
}

/** A chosen part, and what is under the pointer, in the units of the scene. */
export interface HeatOver {
  cross: number;
  box: { from: number; to: number; low: number; high: number } | null;
  spot: { from: number; to: number; low: number; high: number } | null;
  a: number;
  b: number;
  /** Moments at which something was noted. */
  notes: readonly number[];
}

/** The share of the colours that a count has: by its log, so that one event is seen beside many. */
export function heatShare(n: number, most: number): number {
  return most > 1 ? Math.log(1 + n) / Math.log(1 + most) : n > 0 ? 1 : 0;
}

/**
 * Pixels of the cells first..end and the buckets low..high, the highest bucket on top. No events
 * have no colour.
 */
export function mapPixels(
  s: Pick<HeatScene, "counts" | "first" | "rows" | "most" | "low" | "high">,
  first: number,
  end: number,
  dark: boolean,
): Uint32Array<ArrayBuffer> {
  const width = Math.max(0, end - first);
  const height = Math.max(0, s.high - s.low);
  const out = new Uint32Array(width * height);
  const steps = 255;
  const colours = Uint32Array.from(
    { length: steps + 1 },
    (_, i) => (0xff000000 | heatColour(0.08 + (0.92 * i) / steps, dark)) >>> 0,
  );
  for (let c = 0; c < width; c++) {
    for (let r = 0; r < height; r++) {
      const row = s.low + r - s.first;
      if (row < 0 || row >= s.rows) continue;
      const n = s.counts[(first + c) * s.rows + row]!;
      if (n > 0)
        out[(height - 1 - r) * width + c] = colours[Math.round(heatShare(n, s.most) * steps)]!;
    }
  }
  return out;
}

/** Draws the map. */
export function drawMap(s: Surface, gutter: number, scene: HeatScene, look: Look): void {
  const { ctx } = s;
  const box = plotOf(s, gutter);
  const map = new Places(box, scene);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  frame(s, box, map, scene, look);
  const first = Math.max(0, Math.floor((scene.from - scene.start) / scene.step));
  const end = Math.min(scene.elapsed.length, Math.ceil((scene.to - scene.start) / scene.step));
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  if (end > first && scene.high > scene.low) image(s, box, map, scene, look, first, end);
  for (const l of scene.lines) percentile(s, map, scene, l, first, end);
  ctx.restore();
  axis(s, box, map, scene, look);
  marksAtEdges(s, box, map, scene, look);
}

function image(
  s: Surface,
  box: Box,
  map: Places,
  scene: HeatScene,
  look: Look,
  first: number,
  end: number,
): void {
  const width = end - first;
  const height = scene.high - scene.low;
  const pixels = mapPixels(scene, first, end, isDark(look.ground));
  const left = map.x(scene.start + first * scene.step);
  const right = map.x(scene.start + end * scene.step);
  paint(s.ctx, pixels, width, height, {
    left,
    top: box.top,
    width: right - left,
    height: box.height,
  });
}

/** One percentile: a step per cell, with a dark edge so that it is seen on every colour. */
function percentile(
  s: Surface,
  map: Places,
  scene: HeatScene,
  l: HeatScene["lines"][number],
  first: number,
  end: number,
): void {
  const { ctx, dpr } = s;
  if (scene.step * map.kx < stairs) {
    const line = Math.max(1, Math.round(dpr));
    dense(ctx, map, scene, l.values, "rgb(0 0 0 / 55%)", line, first, end);
    dense(ctx, map, scene, l.values, l.colour, 0, first, end);
    return;
  }
  ctx.beginPath();
  let open = false;
  for (let c = first; c < end; c++) {
    const v = l.values[c]!;
    if (Number.isNaN(v)) {
      open = false;
      continue;
    }
    const y = map.y(v);
    const x = map.x(scene.start + c * scene.step);
    if (open) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
    ctx.lineTo(x + scene.step * map.kx, y);
    open = true;
  }
  ctx.lineJoin = "bevel";
  ctx.setLineDash([]);
  ctx.strokeStyle = "#000";
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = Math.max(2, 3 * dpr);
  ctx.stroke();
  ctx.globalAlpha = 1;
  if (l.dashed) ctx.setLineDash([4 * dpr, 3 * dpr]);
  ctx.strokeStyle = l.colour;
  ctx.lineWidth = Math.max(1, 1.25 * dpr);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Cells narrower than this many device pixels are drawn as columns of pixels. */
const stairs = 4;

/**
 * A line through cells of about a pixel: rectangles one by one, for a stroke of so many corners
 * takes several times as long.
 */
function dense(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: HeatScene,
  values: Column,
  colour: string,
  edge: number,
  first: number,
  end: number,
): void {
  ctx.fillStyle = colour;
  let before = Number.NaN;
  for (let c = first; c < end; c++) {
    const v = values[c]!;
    if (Number.isNaN(v)) {
      before = v;
      continue;
    }
    const y = Math.round(map.y(v));
    const top = Number.isNaN(before) ? y : Math.min(y, before);
    const bottom = Number.isNaN(before) ? y : Math.max(y, before);
    const x = Math.round(map.x(scene.start + c * scene.step));
    const right = Math.round(map.x(scene.start + (c + 1) * scene.step));
    ctx.fillRect(x, top - edge, Math.max(1, right - x), bottom - top + 1 + 2 * edge);
    before = y;
  }
}

function axis(s: Surface, box: Box, map: Places, scene: HeatScene, look: Look): void {
  const { ctx, dpr } = s;
  ctx.font = `${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const m of scene.marks) {
    const y = Math.round(map.y(m.at));
    ctx.fillStyle = look.dim;
    ctx.globalAlpha = 0.35;
    ctx.fillRect(box.left, y, box.width, Math.max(1, Math.round(dpr)));
    ctx.globalAlpha = 1;
    ctx.fillText(m.label, box.left - 5 * dpr, Math.min(Math.max(y, 7 * dpr), s.height - 7 * dpr));
  }
}

/** Marks of lost events below, and of what is cut off above. */
function marksAtEdges(s: Surface, box: Box, map: Places, scene: HeatScene, look: Look): void {
  const { ctx, dpr } = s;
  ctx.fillStyle = look.hot;
  for (const ms of scene.losses) {
    const x = map.x(ms);
    if (x < box.left || x > box.left + box.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, box.top + box.height - 7 * dpr);
    ctx.lineTo(x + 4 * dpr, box.top + box.height);
    ctx.lineTo(x - 4 * dpr, box.top + box.height);
    ctx.fill();
  }
  if (scene.cut) ctx.fillRect(box.left, box.top - 2 * dpr, box.width, Math.max(1, 2 * dpr));
}

/** Draws what lies over the map: the crosshair, what is pointed at, the chosen rectangle. */
export function drawMapOver(
  s: Surface,
  gutter: number,
  scene: Pick<HeatScene, "from" | "to" | "start" | "step" | "low" | "high">,
  over: HeatOver,
  look: Look,
): void {
  const { ctx, dpr } = s;
  const box = plotOf(s, gutter);
  const map = new Places(box, scene);
  const line = Math.max(1, Math.round(dpr));
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  noteLines(s, map, over.notes, look);
  for (const ms of [over.a, over.b]) {
    if (Number.isNaN(ms)) continue;
    ctx.fillStyle = look.accent;
    const x = Math.round(map.x(ms));
    for (let y = 0; y < s.height; y += 6 * dpr) ctx.fillRect(x, y, line, 3 * dpr);
  }
  if (!Number.isNaN(over.cross)) {
    ctx.fillStyle = look.text;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(Math.round(map.x(over.cross)), 0, line, s.height);
    ctx.globalAlpha = 1;
  }
  const outline = (r: HeatOver["box"], width: number): void => {
    if (!r) return;
    const x = map.x(r.from);
    const y = map.y(r.high);
    const w = Math.max(2 * dpr, map.x(r.to) - x);
    const h = Math.max(2 * dpr, map.y(r.low) - y);
    ctx.lineWidth = (width + 2) * dpr;
    ctx.strokeStyle = look.ground;
    ctx.strokeRect(x, y, w, h);
    ctx.lineWidth = width * dpr;
    ctx.strokeStyle = look.text;
    ctx.strokeRect(x, y, w, h);
  };
  outline(over.spot, 1);
  outline(over.box, 2);
  ctx.restore();
}
