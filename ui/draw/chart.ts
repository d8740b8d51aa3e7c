// Rows over time on a canvas: lines with the band between least and greatest, or rows stacked on
// one another; gaps as gaps. Draws in device pixels and knows neither the page nor the server.

import { drawEarlier, drawUnrecorded } from "./earlier";
import { cut, frame, grid, lost, unit } from "./ground";
import { band, hairlines, strong } from "./lines";
import type { Look } from "./look";
import { Places, plotOf, type Scene } from "./plot";
import { stacks } from "./stack";
import type { Surface } from "./surface";

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
  const { earlier } = scene;
  if (scene.stacked) {
    stacks(ctx, map, scene, look, first, end, line);
    if (earlier) drawEarlier(ctx, map, scene, earlier, first, end, dpr);
  } else {
    if (earlier) drawEarlier(ctx, map, scene, earlier, first, end, dpr);
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
  if (earlier) drawUnrecorded(ctx, map, scene, earlier.elapsed, first, end, dpr, look);
  ctx.restore();
  unit(s, box, scene, look);
  cut(s, map, scene, look, first, end);
  lost(s, box, map, scene, look);
}
