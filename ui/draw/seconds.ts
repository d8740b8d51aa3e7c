// Seconds as a picture, to choose a stretch of time from: time from left to right, the part of the
// second from below to above, the colour how busy CPUs were.

import type { TimeMark } from "./axis";
import { heatColour, isDark, paint } from "./heat";
import type { Look } from "./look";
import type { Surface } from "./surface";

/** What is drawn. */
export interface SecondsScene {
  /** In sight, in milliseconds. */
  from: number;
  to: number;
  /**
   * The grid, and the values: that of a line and a column is at slot * cells + cell. NaN is not
   * measured, and has no colour.
   */
  start: number;
  step: number;
  cells: number;
  slots: number;
  rate: Float32Array;
  /** The value that has the last colour. */
  most: number;
  times: readonly TimeMark[];
  /** The stretches that are chosen, and compared with. */
  chosen: { from: number; to: number } | null;
  before: { from: number; to: number } | null;
}

/** How high the time's labels are, in CSS pixels. */
export const axisHeight = 18;

/** Draws it. */
export function drawSeconds(s: Surface, scene: SecondsScene, look: Look): void {
  const { ctx, dpr, width } = s;
  const high = s.height - Math.round(axisHeight * dpr);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, s.width, s.height);
  if (high < 2 || !(scene.to > scene.from)) return;
  const k = width / (scene.to - scene.from);
  const x = (ms: number) => (ms - scene.from) * k;
  const dark = isDark(look.ground);
  ctx.fillStyle = look.grid;
  for (const t of scene.times)
    ctx.fillRect(Math.round(x(t.ms)), 0, Math.max(1, Math.round(dpr)), high + Math.round(4 * dpr));
  if (scene.cells > 0) {
    const pixels = new Uint32Array(scene.cells * scene.slots);
    for (let line = 0; line < scene.slots; line++) {
      for (let c = 0; c < scene.cells; c++) {
        const v = scene.rate[line * scene.cells + c]!;
        if (Number.isNaN(v)) continue;
        pixels[(scene.slots - 1 - line) * scene.cells + c] =
          (0xff000000 | heatColour(scene.most > 0 ? v / scene.most : 0, dark)) >>> 0;
      }
    }
    const left = x(scene.start);
    paint(ctx, pixels, scene.cells, scene.slots, {
      left,
      top: 0,
      width: x(scene.start + scene.cells * scene.step) - left,
      height: high,
    });
  }
  ctx.font = `${Math.round(11 * dpr)}px system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif`;
  ctx.textBaseline = "bottom";
  ctx.textAlign = "left";
  ctx.fillStyle = look.dim;
  for (const t of scene.times) ctx.fillText(t.label, Math.round(x(t.ms)) + 4 * dpr, s.height);
  const frame = (of: { from: number; to: number } | null, style: string, name: string) => {
    if (!of || of.to < scene.from || of.from > scene.to) return;
    const a = Math.round(x(of.from));
    const b = Math.max(a + 2 * dpr, Math.round(x(of.to)));
    ctx.strokeStyle = style;
    ctx.lineWidth = 2 * dpr;
    ctx.strokeRect(a, dpr, b - a, high - 2 * dpr);
    if (name === "") return;
    ctx.fillStyle = look.ground;
    ctx.fillRect(a, 0, 14 * dpr, 16 * dpr);
    ctx.fillStyle = style;
    ctx.fillText(name, a + 4 * dpr, 15 * dpr);
  };
  frame(scene.before, look.dim, "A");
  frame(scene.chosen, look.hot, scene.before ? "B" : "");
}
