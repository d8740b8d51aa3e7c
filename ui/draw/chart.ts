// Rows over time on a canvas: lines with the band between least and greatest, or rows stacked on
// one another; gaps as gaps. Draws in device pixels and knows neither the page nor the server.

import type { Column } from "../data/columns";
import type { TimeMark } from "./axis";
import { Coverage, lay, rgb } from "./fine";
import type { Look } from "./look";
import type { Surface } from "./surface";

/** One row to draw. */
export interface Line {
  values: Column;
  /**
   * Least and greatest within each cell; null where a cell is one measurement. Not drawn where rows
   * are stacked.
   */
  min: Column | null;
  max: Column | null;
  colour: string;
  /** One of many without a colour of its own: a hairline, behind the others. */
  faint: boolean;
  /** Unlike the others: thicker and above them, which are dimmed. */
  bold?: boolean;
  /**
   * Not a row itself but what of the whole is in no row: dashed; in a stack, what is below zero
   * takes no space.
   */
  dashed?: boolean;
}

/** The time that a picture shows, and the grid of what is measured. Times are milliseconds. */
export interface Frame {
  from: number;
  to: number;
  /** The grid: cell c covers start+c*step to start+(c+1)*step. */
  start: number;
  step: number;
  /** Milliseconds measured in each cell: 0 is drawn as a gap of all rows. */
  elapsed: ArrayLike<number>;
  /** Marks of the time. */
  times: readonly TimeMark[];
  /** More is being asked for: time outside of the grid is not known yet, and is no gap. */
  pending: boolean;
}

/** All that a graph shows. */
export interface Scene extends Frame {
  /** The most important first; stacked: the lowest first. */
  lines: readonly Line[];
  stacked: boolean;
  /**
   * The greatest of the whole within each cell, over a stack; null where a cell is one measurement.
   */
  whole: Column | null;
  /** The values at the lower and upper edge. What is above is cut, and marked. */
  low: number;
  high: number;
  /** Marks of the values. */
  values: readonly number[];
  labels: readonly string[];
  /** The unit of the labels. */
  unit: string;
  /** Moments at which events were lost. */
  losses: readonly number[];
}

/** Where in the canvas the rows are drawn, in device pixels. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The plot of a surface: the values' labels have `gutter` CSS pixels on the left. */
export function plotOf(s: Surface, gutter: number): Box {
  const left = Math.round(gutter * s.dpr);
  const top = Math.round(6 * s.dpr);
  return {
    left,
    top,
    width: Math.max(1, s.width - left),
    height: Math.max(1, s.height - top - Math.round(s.dpr)),
  };
}

/** Where values and moments lie on the plot. */
export class Places {
  readonly kx: number;
  readonly ky: number;
  constructor(
    readonly box: Box,
    readonly scene: Pick<Scene, "from" | "to" | "low" | "high" | "start" | "step">,
  ) {
    this.kx = box.width / Math.max(1e-9, scene.to - scene.from);
    this.ky = box.height / Math.max(Number.MIN_VALUE, scene.high - scene.low);
  }
  x(ms: number): number {
    return this.box.left + (ms - this.scene.from) * this.kx;
  }
  y(v: number): number {
    return this.box.top + this.box.height - (v - this.scene.low) * this.ky;
  }
  ms(x: number): number {
    return this.scene.from + (x - this.box.left) / this.kx;
  }
}

/**
 * Cells narrower than this many device pixels are joined by slopes, wider ones are drawn as the
 * steps that they are.
 */
const stairs = 4;

/** Draws the graph. */
export function draw(s: Surface, gutter: number, scene: Scene, look: Look): void {
  const { ctx, dpr } = s;
  const box = plotOf(s, gutter);
  const map = new Places(box, scene);
  const line = Math.max(1, Math.round(dpr));
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  frame(s, box, map, scene, look);
  grid(s, box, map, scene, look, line);
  const first = Math.max(0, Math.floor((scene.from - scene.start) / scene.step));
  // Rows of another time are no rows: the answer for this one is on its way.
  const last = Math.min(scene.elapsed.length, Math.ceil((scene.to - scene.start) / scene.step));
  const end = Math.max(first, last);
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top - line, box.width, box.height + 2 * line);
  ctx.clip();
  ctx.lineJoin = "bevel";
  ctx.lineCap = "butt";
  if (scene.stacked) stacks(ctx, map, scene, look, first, end, line);
  else {
    hairlines(
      ctx,
      map,
      scene,
      scene.lines.filter((l) => l.faint),
      first,
      end,
    );
    // Bands lie below all lines: no line is hidden by the spread of another.
    for (let i = scene.lines.length - 1; i >= 0; i--) {
      const l = scene.lines[i]!;
      if (!l.faint && l.max && l.min) band(ctx, map, scene, l, first, end);
    }
    const strongest = scene.lines.filter((l) => l.bold);
    ctx.globalAlpha = strongest.length > 0 ? 0.45 : 1;
    for (let i = scene.lines.length - 1; i >= 0; i--) {
      const l = scene.lines[i]!;
      if (!l.faint && !l.bold) strong(ctx, map, scene, l, first, end, dpr);
    }
    ctx.globalAlpha = 1;
    for (const l of strongest.reverse()) strong(ctx, map, scene, l, first, end, dpr);
  }
  ctx.restore();
  unit(s, box, scene, look);
  cut(s, map, scene, look, first, end);
  lost(s, box, map, scene, look);
}

/** Draws what is behind all rows: the marks of the time, and the gaps. */
export function frame(s: Surface, box: Box, map: Places, f: Frame, look: Look): void {
  const line = Math.max(1, Math.round(s.dpr));
  s.ctx.fillStyle = look.grid;
  for (const t of f.times) {
    const x = Math.round(map.x(t.ms));
    if (x >= box.left) s.ctx.fillRect(x, box.top, t.major ? line * 2 : line, box.height);
  }
  const first = Math.max(0, Math.floor((f.from - f.start) / f.step));
  gaps(
    s,
    box,
    map,
    f,
    look,
    first,
    Math.min(f.elapsed.length, Math.ceil((f.to - f.start) / f.step)),
  );
}

function grid(s: Surface, box: Box, map: Places, scene: Scene, look: Look, line: number): void {
  const { ctx, dpr } = s;
  ctx.font = `${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  scene.values.forEach((v, i) => {
    const y = Math.round(map.y(v));
    if (y < box.top - line) return;
    ctx.fillStyle = v === 0 ? look.axis : look.grid;
    ctx.fillRect(box.left, Math.min(y, box.top + box.height), box.width, line);
    ctx.fillStyle = look.dim;
    ctx.fillText(
      scene.labels[i] ?? "",
      box.left - 6 * dpr,
      Math.min(Math.max(y, 7 * dpr), s.height - 7 * dpr),
    );
  });
}

/** The unit of the values, at the upper end of their axis. */
function unit(s: Surface, box: Box, scene: Scene, look: Look): void {
  const { ctx, dpr } = s;
  if (scene.unit === "") return;
  ctx.font = `${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const width = ctx.measureText(scene.unit).width;
  ctx.fillStyle = look.ground;
  ctx.globalAlpha = 0.75;
  ctx.fillRect(box.left + dpr, box.top + dpr, width + 10 * dpr, 15 * dpr);
  ctx.globalAlpha = 1;
  ctx.fillStyle = look.dim;
  ctx.fillText(scene.unit, box.left + 6 * dpr, box.top + 9 * dpr);
}

/** Time in which nothing was measured is hatched, over the whole height. */
function gaps(
  s: Surface,
  box: Box,
  map: Places,
  scene: Frame,
  look: Look,
  first: number,
  end: number,
): void {
  const { ctx, dpr } = s;
  const stretches: [number, number][] = [];
  const gridFrom = map.x(scene.start);
  if (!scene.pending && scene.start > scene.from)
    stretches.push([box.left, Math.min(gridFrom, box.left + box.width)]);
  for (let c = first; c < end; ) {
    if (scene.elapsed[c]! > 0) {
      c++;
      continue;
    }
    const begin = c;
    while (c < end && !(scene.elapsed[c]! > 0)) c++;
    stretches.push([map.x(scene.start + begin * scene.step), map.x(scene.start + c * scene.step)]);
  }
  if (stretches.length === 0) return;
  ctx.save();
  ctx.beginPath();
  for (const [a, b] of stretches) {
    const left = Math.floor(Math.max(a, box.left));
    ctx.rect(left, box.top, Math.max(1, Math.ceil(b) - left), box.height);
  }
  ctx.clip();
  ctx.strokeStyle = look.dim;
  ctx.globalAlpha = 0.16;
  ctx.lineWidth = 1;
  ctx.beginPath();
  const apart = 8 * dpr;
  for (const [a, b] of stretches) {
    const left = Math.max(a, box.left) - box.height;
    for (let x = Math.floor(left / apart) * apart; x < b; x += apart) {
      ctx.moveTo(x, box.top + box.height);
      ctx.lineTo(x + box.height, box.top);
    }
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * The path of a column: a stretch for each run without a gap. Steps or slopes, as wide as the cells
 * are.
 */
function trace(
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

/** So many hairlines and more are worth a picture of their own. */
const manyHairlines = 8;

/**
 * The lines without a colour of their own, so many that they are one grey: as pixels where there
 * are about as many cells as those, and at once.
 */
function hairlines(
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

function strong(
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
function band(
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

function stacks(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  look: Look,
  first: number,
  end: number,
  line: number,
): void {
  const cells = scene.elapsed.length;
  const base = new Float64Array(cells);
  const upper = new Float64Array(cells);
  const w = scene.step * map.kx;
  const x0 = map.x(scene.start);
  for (const l of scene.lines) {
    ctx.fillStyle = l.colour;
    ctx.strokeStyle = l.colour;
    for (let c = first; c < end; c++)
      upper[c] = base[c]! + (l.dashed ? Math.max(0, l.values[c]!) : l.values[c]!);
    ctx.beginPath();
    for (let c = first; c < end; ) {
      if (Number.isNaN(upper[c]!)) {
        c++;
        continue;
      }
      const begin = c;
      while (c < end && !Number.isNaN(upper[c]!)) c++;
      ctx.moveTo(x0 + begin * w, map.y(upper[begin]!));
      along(ctx, map, x0, w, upper, begin, c, 1);
      along(ctx, map, x0, w, base, begin, c, -1);
      ctx.closePath();
    }
    ctx.globalAlpha = l.faint ? 0.45 : 0.72;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.lineWidth = line;
    ctx.beginPath();
    trace(ctx, map, scene, upper, first, end);
    ctx.stroke();
    for (let c = first; c < end; c++) if (!Number.isNaN(upper[c]!)) base[c] = upper[c]!;
  }
  if (!scene.whole) return;
  ctx.strokeStyle = look.text;
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = 1;
  ctx.beginPath();
  trace(ctx, map, scene, scene.whole, first, end);
  ctx.stroke();
  ctx.globalAlpha = 1;
}

function along(
  ctx: CanvasRenderingContext2D,
  map: Places,
  x0: number,
  w: number,
  edge: Float64Array,
  begin: number,
  end: number,
  way: 1 | -1,
): void {
  const steep = w >= stairs;
  if (way > 0) {
    for (let c = begin; c < end; c++) {
      const y = map.y(edge[c]!);
      if (steep || c === begin) ctx.lineTo(x0 + c * w, y);
      if (!steep) ctx.lineTo(x0 + (c + 0.5) * w, y);
      if (steep || c === end - 1) ctx.lineTo(x0 + (c + 1) * w, y);
    }
    return;
  }
  for (let c = end - 1; c >= begin; c--) {
    const y = map.y(edge[c]!);
    if (steep || c === end - 1) ctx.lineTo(x0 + (c + 1) * w, y);
    if (!steep) ctx.lineTo(x0 + (c + 0.5) * w, y);
    if (steep || c === begin) ctx.lineTo(x0 + c * w, y);
  }
}

/** Where rows are cut at the upper edge stands a mark. */
function cut(s: Surface, map: Places, scene: Scene, look: Look, first: number, end: number): void {
  const { ctx, dpr } = s;
  const w = scene.step * map.kx;
  const tops = new Float64Array(end).fill(Number.NaN);
  for (const l of scene.lines) {
    const v = scene.stacked ? l.values : (l.max ?? l.values);
    for (let c = first; c < end; c++) {
      if (Number.isNaN(v[c]!)) continue;
      if (Number.isNaN(tops[c]!)) tops[c] = v[c]!;
      else tops[c] = scene.stacked ? tops[c]! + v[c]! : Math.max(tops[c]!, v[c]!);
    }
  }
  ctx.fillStyle = look.hot;
  let before = -Infinity;
  for (let c = first; c < end; c++) {
    if (!(tops[c]! > scene.high * (1 + 1e-9))) continue;
    const x = map.x(scene.start + (c + 0.5) * scene.step);
    if (x - before < Math.max(3 * dpr, w)) continue;
    before = x;
    ctx.beginPath();
    ctx.moveTo(x, 0);
    ctx.lineTo(x + 3.5 * dpr, 5 * dpr);
    ctx.lineTo(x - 3.5 * dpr, 5 * dpr);
    ctx.fill();
  }
}

/** A loss is a mark at the foot of its moment. */
function lost(s: Surface, box: Box, map: Places, scene: Scene, look: Look): void {
  const { ctx, dpr } = s;
  ctx.fillStyle = look.hot;
  for (const ms of scene.losses) {
    const x = map.x(ms);
    if (x < box.left || x > box.left + box.width) continue;
    const y = box.top + box.height;
    ctx.beginPath();
    ctx.moveTo(x, y - 7 * dpr);
    ctx.lineTo(x + 3.5 * dpr, y);
    ctx.lineTo(x - 3.5 * dpr, y);
    ctx.fill();
  }
}

/**
 * What lies over a graph and changes with the pointer. Times are milliseconds, NaN where there is
 * none.
 */
export interface Over {
  cross: number;
  /** The stretch that is being dragged over. */
  drag: [number, number] | null;
  /** Marks A and B. */
  a: number;
  b: number;
  /** Moments at which something was noted. */
  notes: readonly number[];
  /** Values at the crosshair, each with its colour. */
  dots: readonly { value: number; colour: string }[];
}

/** Draws a dotted line at each moment at which something was noted. */
export function noteLines(s: Surface, map: Places, notes: readonly number[], look: Look): void {
  const { ctx, dpr } = s;
  const line = Math.max(1, Math.round(dpr));
  ctx.fillStyle = look.dim;
  for (const ms of notes) {
    const x = map.x(ms);
    if (x < map.box.left || x > map.box.left + map.box.width) continue;
    for (let y = 0; y < s.height; y += 4 * dpr) ctx.fillRect(Math.round(x), y, line, dpr);
  }
}

/** Draws what lies over a graph. */
export function drawOver(
  s: Surface,
  gutter: number,
  scene: Pick<Scene, "from" | "to" | "low" | "high" | "start" | "step">,
  over: Over,
  look: Look,
): void {
  const { ctx, dpr } = s;
  const box = plotOf(s, gutter);
  const map = new Places(box, scene);
  const line = Math.max(1, Math.round(dpr));
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  const inside = (x: number): boolean => x >= box.left && x <= box.left + box.width;
  if (over.drag) {
    const a = Math.min(Math.max(map.x(over.drag[0]), box.left), box.left + box.width);
    const b = Math.min(Math.max(map.x(over.drag[1]), box.left), box.left + box.width);
    ctx.fillStyle = look.accent;
    ctx.globalAlpha = 0.18;
    ctx.fillRect(Math.min(a, b), 0, Math.abs(b - a), s.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(Math.round(a), 0, line, s.height);
    ctx.fillRect(Math.round(b), 0, line, s.height);
  }
  noteLines(s, map, over.notes, look);
  for (const ms of [over.a, over.b]) {
    const x = map.x(ms);
    if (Number.isNaN(ms) || !inside(x)) continue;
    ctx.fillStyle = look.accent;
    for (let y = 0; y < s.height; y += 6 * dpr) ctx.fillRect(Math.round(x), y, line, 3 * dpr);
  }
  const x = map.x(over.cross);
  if (!Number.isNaN(over.cross) && inside(x)) {
    ctx.fillStyle = look.text;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(Math.round(x), 0, line, s.height);
    ctx.globalAlpha = 1;
    for (const dot of over.dots) {
      const y = map.y(dot.value);
      if (!(y >= box.top - line && y <= box.top + box.height + line)) continue;
      ctx.beginPath();
      ctx.arc(Math.round(x) + line / 2, y, 3.5 * dpr, 0, 2 * Math.PI);
      ctx.fillStyle = look.ground;
      ctx.fill();
      ctx.beginPath();
      ctx.arc(Math.round(x) + line / 2, y, 2.5 * dpr, 0, 2 * Math.PI);
      ctx.fillStyle = dot.colour;
      ctx.fill();
    }
  }
}

/**
 * Draws the axis that all graphs share: the times, the crosshair's moment, the marks A and B, and
 * bars: the times that are compared, the one in question last.
 */
export function drawAxis(
  s: Surface,
  gutter: number,
  from: number,
  to: number,
  times: readonly TimeMark[],
  over: Over & { bars: readonly { from: number; to: number }[] },
  label: string,
  look: Look,
): void {
  const { ctx, dpr } = s;
  const left = Math.round(gutter * dpr);
  const width = s.width - left;
  const line = Math.max(1, Math.round(dpr));
  const at = (ms: number): number => left + ((ms - from) * width) / Math.max(1e-9, to - from);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  ctx.textBaseline = "middle";
  const middle = s.height / 2 - line;
  for (const t of times) {
    const x = Math.round(at(t.ms));
    ctx.fillStyle = look.dim;
    ctx.fillRect(x, s.height - 4 * dpr, line, 4 * dpr);
    ctx.font = `${t.major ? "600 " : ""}${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
    ctx.fillStyle = t.major ? look.text : look.dim;
    const w = ctx.measureText(t.label).width / 2;
    ctx.textAlign = "center";
    ctx.fillText(t.label, Math.min(Math.max(x, left + w), s.width - w - 2 * dpr), middle);
  }
  ctx.font = `600 ${Math.round(11 * dpr)}px ui-sans-serif, system-ui, sans-serif`;
  const box = (ms: number, text: string, fill: string, ink: string): void => {
    const x = at(ms);
    if (Number.isNaN(ms) || x < left - 1 || x > s.width + 1) return;
    const w = ctx.measureText(text).width + 10 * dpr;
    const l = Math.min(Math.max(x - w / 2, left), s.width - w);
    ctx.fillStyle = fill;
    ctx.fillRect(Math.round(l), 0, Math.round(w), s.height - line);
    ctx.fillStyle = ink;
    ctx.textAlign = "center";
    ctx.fillText(text, l + w / 2, middle);
  };
  over.bars.forEach((bar, i) => {
    const x = Math.max(left, at(bar.from));
    ctx.fillStyle = i === over.bars.length - 1 ? look.accent : look.dim;
    ctx.fillRect(x, s.height - 3 * dpr, Math.min(s.width, at(bar.to)) - x, 3 * dpr);
  });
  box(over.a, "A", look.accent, look.ground);
  box(over.b, "B", look.accent, look.ground);
  box(over.cross, label, look.text, look.ground);
}
