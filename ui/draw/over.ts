// What lies over a graph and changes with the pointer: crosshair, marks, what is dragged over; and
// the axis that all graphs share.

import type { TimeMark } from "./axis";
import type { Look } from "./look";
import { Places, plotOf, type Scene } from "./plot";
import type { Surface } from "./surface";

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
  /** Values at the crosshair, each with its colour; hollow: of an earlier time. */
  dots: readonly { value: number; colour: string; hollow?: boolean }[];
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
      ctx.strokeStyle = dot.colour;
      ctx.lineWidth = line;
      if (dot.hollow) ctx.stroke();
      else ctx.fill();
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
