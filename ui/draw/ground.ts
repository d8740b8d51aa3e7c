// What is behind the rows of a graph and at its edges: marks of the time and of the values, gaps,
// losses.

import type { Look } from "./look";
import type { Box, Frame, Places, Scene } from "./plot";
import type { Surface } from "./surface";

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

export function grid(
  s: Surface,
  box: Box,
  map: Places,
  scene: Scene,
  look: Look,
  line: number,
): void {
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
export function unit(s: Surface, box: Box, scene: Scene, look: Look): void {
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

/** Where rows are cut at the upper edge stands a mark. */
export function cut(
  s: Surface,
  map: Places,
  scene: Scene,
  look: Look,
  first: number,
  end: number,
): void {
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
export function lost(s: Surface, box: Box, map: Places, scene: Scene, look: Look): void {
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
