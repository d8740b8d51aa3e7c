// Many hairlines of one colour, made pixel by pixel: to stroke a line of as many points as pixels
// takes a canvas several times as long. Pure but for the last step, which lays the pixels on a
// canvas.

import type { Column } from "../data/columns";

/**
 * How much of each pixel is covered, 0 to 255, column after column: the pixel at x, y is at x *
 * height + y.
 */
export class Coverage {
  readonly of: Uint8Array;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.of = new Uint8Array(width * height);
  }

  /**
   * Draws a column of values as a path would be: from the edge of the first cell by the middles of
   * all to the edge of the last, anew after each gap. Cell c begins at x0 + c * step; a value v is
   * at y = base - (v - low) * ky. All in one function, of numbers alone: it is called for a quarter
   * of a million points a picture.
   */
  trace(
    values: Column,
    first: number,
    end: number,
    x0: number,
    step: number,
    base: number,
    low: number,
    ky: number,
    opacity: number,
  ): void {
    const { of, width, height } = this;
    const k = Math.round(opacity * 256);
    let open = false;
    let x = 0; // where the line is
    let y = 0;
    let column = 0; // of pixels, which the line covers from above to below
    let above = 0;
    let below = 0;
    for (let c = first; c <= end; c++) {
      const v = c < end ? values[c]! : Number.NaN;
      const gap = Number.isNaN(v);
      if (gap && !open) continue;
      const toX = gap ? x0 + c * step : x0 + (c + 0.5) * step;
      const toY = gap ? y : base - (v - low) * ky;
      if (!open) {
        x = x0 + c * step;
        y = toY;
        column = Math.floor(x);
        above = y;
        below = y;
        open = true;
      }
      const slope = toX > x ? (toY - y) / (toX - x) : 0;
      for (;;) {
        const edge = column + 1;
        const leaves = edge < toX;
        const at = leaves ? y + (edge - x) * slope : toY;
        if (at < above) above = at;
        else if (at > below) below = at;
        if (!leaves && !gap) break;
        // The column is done. Half a pixel more at each end, so that a level line is one pixel
        // thick; what is covered in part counts in part.
        const top = above > 0.5 ? above - 0.5 : 0;
        const bottom = below < height - 0.5 ? below + 0.5 : height;
        if (column >= 0 && column < width && bottom > top) {
          const foot = column * height;
          const begin = Math.floor(top);
          const last = Math.min(height - 1, Math.floor(bottom));
          const share = begin < last ? begin + 1 - top : bottom - top;
          let i = foot + begin;
          let was = of[i]!;
          of[i] = was + (255 - was) * opacity * share;
          if (begin < last) {
            for (i++; i < foot + last; i++) {
              was = of[i]!;
              of[i] = was + (((255 - was) * k) >> 8);
            }
            was = of[i]!;
            of[i] = was + (255 - was) * opacity * (bottom - last);
          }
        }
        if (!leaves) break;
        column = edge;
        above = at;
        below = at;
      }
      x = toX;
      y = toY;
      if (gap) open = false;
    }
  }

  /** The pixels of a picture in a colour: red, green and blue, 0 to 255 each. */
  pixels(into: Uint32Array, [red, green, blue]: readonly [number, number, number]): void {
    const { of, width, height } = this;
    // The bytes are red, green, blue, alpha on all little-endian machines.
    const colour = (blue << 16) | (green << 8) | red;
    for (let x = 0, i = 0; x < width; x++) {
      for (let p = x, y = 0; y < height; y++, p += width, i++)
        if (of[i] !== 0) into[p] = (of[i]! << 24) | colour;
    }
  }
}

/** A colour as a canvas says it, #rrggbb; null of any other. */
export function rgb(text: string): [number, number, number] | null {
  const n = /^#[0-9a-f]{6}$/i.test(text) ? Number.parseInt(text.slice(1), 16) : Number.NaN;
  return Number.isNaN(n) ? null : [n >> 16, (n >> 8) & 255, n & 255];
}

const layers = new WeakMap<HTMLCanvasElement, OffscreenCanvas>();

/** Lays the coverage on a canvas in a colour. */
export function lay(
  ctx: CanvasRenderingContext2D,
  c: Coverage,
  colour: readonly [number, number, number],
  left: number,
  top: number,
): void {
  let layer = layers.get(ctx.canvas);
  if (!layer || layer.width !== c.width || layer.height !== c.height) {
    layer = new OffscreenCanvas(c.width, c.height);
    layers.set(ctx.canvas, layer);
  }
  const own = layer.getContext("2d");
  if (!own) return;
  const image = new ImageData(c.width, c.height);
  c.pixels(new Uint32Array(image.data.buffer), colour);
  own.putImageData(image, 0, 0);
  ctx.drawImage(layer, left, top);
}
