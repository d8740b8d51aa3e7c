// Rows on one another.

import { trace } from "./lines";
import type { Look } from "./look";
import { type Places, type Scene, stairs } from "./plot";

export function stacks(
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
