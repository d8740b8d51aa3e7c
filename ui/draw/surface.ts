// A canvas whose pixels are the device's: no blur on any screen, whatever the zoom of the page.

/** The part of a canvas that a drawing needs. All lengths are device pixels. */
export interface Surface {
  ctx: CanvasRenderingContext2D;
  width: number;
  height: number;
  /** Device pixels a CSS pixel. */
  dpr: number;
}

/**
 * Keeps the canvas as many pixels as it covers on the screen, and calls draw when that has changed:
 * at once, and after each resize. Returns a function that ends it.
 */
export function sharp(canvas: HTMLCanvasElement, draw: (s: Surface) => void): () => void {
  const set = (width: number, height: number): void => {
    if (width < 1 || height < 1) return;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const s = surfaceOf(canvas);
    if (s) draw(s);
  };
  const watch = new ResizeObserver((entries) => {
    const entry = entries[entries.length - 1]!;
    const box = entry.devicePixelContentBoxSize?.[0];
    if (box) set(box.inlineSize, box.blockSize);
    else
      set(
        Math.round(entry.contentRect.width * devicePixelRatio),
        Math.round(entry.contentRect.height * devicePixelRatio),
      );
  });
  try {
    watch.observe(canvas, { box: "device-pixel-content-box" });
  } catch {
    watch.observe(canvas);
  }
  return () => watch.disconnect();
}

/** The surface of a canvas as it is; null when the browser returns no context. */
export function surfaceOf(canvas: HTMLCanvasElement): Surface | null {
  const ctx = canvas.getContext("2d");
  if (!ctx) return null;
  return {
    ctx,
    width: canvas.width,
    height: canvas.height,
    dpr: canvas.clientWidth > 0 ? canvas.width / canvas.clientWidth : 1,
  };
}
