// The rows of an earlier time, dotted and faint, and the marks of what was not recorded then.

import { trace } from "./lines";
import type { Look } from "./look";
import type { Earlier, Places, Scene } from "./plot";

/** The height of the marks at the upper edge of a graph, in CSS pixels. */
const edge = 5;

/** Draws the rows of an earlier time. */
export function drawEarlier(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  earlier: Earlier,
  first: number,
  end: number,
  dpr: number,
): void {
  ctx.globalAlpha = 0.75;
  ctx.lineWidth = Math.max(1, 1.25 * dpr);
  ctx.setLineDash([1.5 * dpr, 2.5 * dpr]);
  for (const l of earlier.lines.toReversed()) {
    ctx.strokeStyle = l.colour;
    ctx.beginPath();
    trace(ctx, map, scene, l.values, first, end);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** Marks at the upper edge the cells of which nothing was recorded at the earlier time. */
export function drawUnrecorded(
  ctx: CanvasRenderingContext2D,
  map: Places,
  scene: Scene,
  elapsed: ArrayLike<number>,
  first: number,
  end: number,
  dpr: number,
  look: Look,
): void {
  const { box } = map;
  const foot = box.top + edge * dpr;
  ctx.strokeStyle = look.dim;
  ctx.lineWidth = Math.max(1, dpr);
  for (let c = first; c < end; ) {
    if (elapsed[c] !== 0) {
      c++;
      continue;
    }
    const begin = c;
    while (c < end && elapsed[c] === 0) c++;
    const from = Math.max(box.left, map.x(scene.start + begin * scene.step));
    const to = Math.min(box.left + box.width, map.x(scene.start + c * scene.step));
    ctx.beginPath();
    ctx.moveTo(from, foot);
    ctx.lineTo(to, foot);
    for (let x = from; x < to; x += 4 * dpr) {
      ctx.moveTo(x, foot);
      ctx.lineTo(Math.min(to, x + edge * dpr), box.top);
    }
    ctx.stroke();
  }
}
