// The small line in a table: its shape, not its numbers. NaN is a gap.

/** How a sparkline looks. */
export interface SparkStyle {
  /** Of the line; the area under it is the same colour, thinned. */
  colour: string;
  /** The height that is the top: 1 for a share. Unknown: the greatest value, at least `least`. */
  top?: number;
  /** With an unknown top, the top is at least this: noise around nothing stays low. */
  least?: number;
  /** Fill the area under the line. */
  area?: boolean;
}

/**
 * Draws values, evenly spaced from the left to the right edge, onto a canvas of any size: it is
 * made as many device pixels as it covers. Stretches of more values than pixels keep their
 * greatest. Values above the top are cut at it.
 */
export function sparkline(
  canvas: HTMLCanvasElement,
  values: ArrayLike<number>,
  style: SparkStyle,
): void {
  const dpr = globalThis.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * dpr));
  const height = Math.max(1, Math.round(canvas.clientHeight * dpr));
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const ctx = canvas.getContext("2d");
  if (!ctx) return;
  ctx.clearRect(0, 0, width, height);
  const line = Math.max(1, Math.round(dpr));
  const runs = sparkRuns(values, width, height - line, style.top ?? NaN, style.least ?? 0);
  ctx.translate(0, line / 2);
  for (const run of runs) {
    if (style.area !== false) {
      ctx.beginPath();
      ctx.moveTo(run.x[0]!, height);
      for (let i = 0; i < run.x.length; i++) ctx.lineTo(run.x[i]!, run.y[i]!);
      ctx.lineTo(run.x[run.x.length - 1]!, height);
      ctx.globalAlpha = 0.2;
      ctx.fillStyle = style.colour;
      ctx.fill();
      ctx.globalAlpha = 1;
    }
    ctx.beginPath();
    for (let i = 0; i < run.x.length; i++) ctx.lineTo(run.x[i]!, run.y[i]!);
    ctx.strokeStyle = style.colour;
    ctx.lineWidth = line;
    ctx.lineJoin = "bevel";
    ctx.stroke();
  }
  ctx.setTransform(1, 0, 0, 1, 0, 0);
}

/**
 * The points of a sparkline in pixels, a list for each stretch without a gap; y grows downward and
 * 0 is at the height.
 */
export function sparkRuns(
  values: ArrayLike<number>,
  width: number,
  height: number,
  top: number,
  least: number,
): { x: number[]; y: number[] }[] {
  const points = Math.min(values.length, Math.max(1, Math.floor(width)));
  const thinned: number[] = [];
  let greatest = 0;
  for (let p = 0; p < points; p++) {
    const from = Math.floor((p * values.length) / points);
    const to = Math.max(from + 1, Math.floor(((p + 1) * values.length) / points));
    let m = NaN;
    for (let i = from; i < to; i++)
      if (!Number.isNaN(values[i]!) && !(values[i]! <= m)) m = values[i]!;
    thinned.push(m);
    if (m > greatest) greatest = m;
  }
  const full = top > 0 ? top : Math.max(greatest, least);
  const runs: { x: number[]; y: number[] }[] = [];
  let run: { x: number[]; y: number[] } | null = null;
  const cell = width / Math.max(1, points);
  thinned.forEach((v, p) => {
    if (Number.isNaN(v)) {
      run = null;
      return;
    }
    const y = full > 0 ? height * (1 - Math.min(1, Math.max(0, v / full))) : height;
    if (!run) {
      run = { x: [p * cell], y: [y] };
      runs.push(run);
    }
    // A point in the middle of its cell; the stretch begins and ends at the cell's edges, so that a
    // lone value is seen.
    run.x.push((p + 0.5) * cell);
    run.y.push(y);
    const next = thinned[p + 1];
    if (next === undefined || Number.isNaN(next)) {
      run.x.push((p + 1) * cell);
      run.y.push(y);
    }
  });
  return runs;
}
