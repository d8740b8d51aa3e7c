// What the measurements of flame graphs share: a profile of a million calls, what was drawn when,
// and the table that is printed.

import type { Browser, Page } from "playwright-core";

/**
 * Folded stacks of so many calls: each hangs on a call before it, any of them, as in profiles with
 * a long tail.
 */
export function million(nodes = 1_000_000): string {
  let seed = 42;
  const random = (n: number) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  const parent = new Int32Array(nodes);
  const leaf = new Uint8Array(nodes).fill(1);
  const path: string[] = ["main"];
  const out: string[] = [];
  for (let i = 1; i < nodes; i++) {
    parent[i] = random(i);
    leaf[parent[i]!] = 0;
  }
  for (let i = 1; i < nodes; i++) path[i] = `${path[parent[i]!]};f${random(9000)}`;
  for (let i = 1; i < nodes; i++) if (leaf[i]) out.push(`${path[i]} ${1 + random(9)}`);
  return out.join("\n");
}

export interface Drawn {
  begun: number;
  /** Milliseconds of the code that draws, and of the pixels. */
  code: number;
  pixels: number;
}

/**
 * Notes each picture of the graph, from within the page: from its clearRect to the end of the task,
 * and until all pixels are there.
 */
export function watch(within: string): void {
  const drawn: Drawn[] = [];
  (window as unknown as { drawn: Drawn[] }).drawn = drawn;
  const its = CanvasRenderingContext2D.prototype;
  const { clearRect, getImageData } = its;
  let at: CanvasRenderingContext2D | null = null;
  its.clearRect = function (
    this: CanvasRenderingContext2D,
    x: number,
    y: number,
    w: number,
    h: number,
  ) {
    clearRect.call(this, x, y, w, h);
    if (!(this.canvas as HTMLCanvasElement).closest?.(within) || at === this) return;
    at = this;
    const begun = performance.now();
    queueMicrotask(() => {
      at = null;
      const code = performance.now() - begun;
      getImageData.call(this, 0, 0, 1, 1);
      drawn.push({ begun, code, pixels: performance.now() - begun - code });
    });
  };
}

export const drawnBy = (page: Page) =>
  page.evaluate(() => (window as unknown as { drawn: Drawn[] }).drawn);

/**
 * Milliseconds of a processor that the page's thread took for each picture that a frame asked for
 * while something was done, as Chromium counts them: without what it waited for a processor, which
 * on a busy machine is most.
 */
export async function ownTimes(
  browser: Browser,
  page: Page,
  what: () => Promise<void>,
): Promise<number[]> {
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "__metadata"] });
  await what();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: {
      ph: string;
      name: string;
      pid: number;
      tid: number;
      tdur?: number;
      args?: { name?: string };
    }[];
  };
  const main = new Set(
    traceEvents
      .filter((e) => e.name === "thread_name" && e.args?.name === "CrRendererMain")
      .map((e) => `${e.pid} ${e.tid}`),
  );
  return (
    traceEvents
      .filter(
        (e) => e.ph === "X" && e.name === "FireAnimationFrame" && main.has(`${e.pid} ${e.tid}`),
      )
      // Shorter ones drew nothing.
      .flatMap((e) => (e.tdur !== undefined && e.tdur > 500 ? [e.tdur / 1000] : []))
  );
}

/** A table of docs/PERFORMANCE.md: of each thing the median and the most of its milliseconds. */
export function said() {
  const rows: string[] = [];
  return {
    rows,
    say(what: string, goal: string, all: number[]): void {
      const sorted = [...all].sort((a, b) => a - b);
      const text = (v: number) => (v < 20 ? v.toFixed(1) : String(Math.round(v)));
      rows.push(
        `| ${what} | ${goal} | ${text(sorted[sorted.length >> 1]!)} | ${text(sorted.at(-1)!)} |`,
      );
    },
    text: (title: string): string =>
      [`| ${title} | goal, ms | median, ms | most, ms |`, "|---|--:|--:|--:|", ...rows].join("\n"),
  };
}
