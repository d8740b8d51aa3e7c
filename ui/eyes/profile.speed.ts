// A profile of a million calls on the screen: to its first picture, and each frame of a zoom. Prints a table of docs/PERFORMANCE.md.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { Eyes, lacks, Served, until } from "./stage";

const runs = Number(process.env.RUNS ?? 5);
const nodes = 1_000_000;
const rows: string[] = [];

function say(what: string, goal: string, all: number[]): void {
  const sorted = [...all].sort((a, b) => a - b);
  const text = (v: number) => (v < 20 ? v.toFixed(1) : String(Math.round(v)));
  rows.push(`| ${what} | ${goal} | ${text(sorted[sorted.length >> 1]!)} | ${text(sorted.at(-1)!)} |`);
}

/** Folded stacks of so many calls: each hangs on a call before it, any of them, as in profiles with a long tail. */
function stacks(): string {
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

interface Drawn {
  begun: number;
  /** Milliseconds of the code that draws, and of the pixels. */
  code: number;
  pixels: number;
}

/** Notes each picture of the graph, from within the page: from its clearRect to the end of the task, and until all pixels are there. */
function watch(): void {
  const drawn: Drawn[] = [];
  (window as unknown as { drawn: Drawn[] }).drawn = drawn;
  const its = CanvasRenderingContext2D.prototype;
  const { clearRect, getImageData } = its;
  let at: CanvasRenderingContext2D | null = null;
  its.clearRect = function (this: CanvasRenderingContext2D, x: number, y: number, w: number, h: number) {
    clearRect.call(this, x, y, w, h);
    if (!(this.canvas as HTMLCanvasElement).closest?.(".room") || at === this) return;
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

const drawnBy = (page: Page) => page.evaluate(() => (window as unknown as { drawn: Drawn[] }).drawn);

describe.skipIf(lacks !== "")("a profile of a million calls", () => {
  let served: Served;
  let eyes: Eyes;
  let id = "";
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open();
    const text = stacks();
    const begun = performance.now();
    const answer = await fetch(`${served.url}api/profiles?name=million`, {
      method: "POST",
      headers: { Authorization: `Bearer ${served.token}`, "X-Culprit": "1", "Content-Type": "application/octet-stream" },
      body: text,
    });
    if (!answer.ok) throw new Error(await answer.text());
    const kept = (await answer.json()) as { id: string; nodes: number; depth: number };
    id = kept.id;
    say(`a file of ${kept.nodes.toLocaleString("en")} calls (${Math.round(text.length / 1e6)} MB), read by the server`, "", [
      performance.now() - begun,
    ]);
  });
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
    console.log(["| a profile on the screen | goal, ms | median, ms | most, ms |", "|---|--:|--:|--:|", ...rows].join("\n"));
  });

  it("is painted, and zoomed", async () => {
    const open: number[] = [];
    const answer: number[] = [];
    const rest: number[] = [];
    const all: number[] = [];
    const code: number[] = [];
    const frame: number[] = [];
    const pixels: number[] = [];
    const apart: number[] = [];
    for (let n = 0; n < runs; n++) {
      const look = await eyes.at(served, "#profile", { width: 1600, height: 900 });
      const { page, context } = look;
      await page.close();
      const own = await context.newPage();
      await own.addInitScript(watch);
      await own.goto(`${served.url}#profile`);
      await own.waitForSelector("main h1");
      await own.waitForTimeout(500);
      const clicked = await own.evaluate((p) => {
        location.hash = `#profile?p=${p}`;
        return performance.now();
      }, id);
      const first = await until("the picture", async () => (await drawnBy(own))[0]);
      const picture = first.begun + first.code + first.pixels;
      const asked = await own.evaluate(() => {
        const e = performance.getEntriesByType("resource").find((r) => r.name.includes("/api/profile?id=")) as PerformanceResourceTiming;
        return [e.startTime, e.responseEnd];
      });
      open.push(picture - clicked);
      answer.push(asked[1]! - asked[0]!);
      rest.push(picture - asked[1]!);
      code.push(first.code);
      const there = await own.waitForFunction(() => (document.querySelector(".twin tbody tr") ? performance.now() : 0));
      all.push(((await there.jsonValue()) as number) - clicked);
      await own.waitForTimeout(800);
      // Into the call that is widest below the root, and below that one, and out again.
      for (const [x, y] of [
        [0.5, 45],
        [0.5, 81],
        [0.3, 9],
      ] as const) {
        const before = (await drawnBy(own)).length;
        const box = (await own.locator(".room canvas").first().boundingBox())!;
        await own.mouse.click(box.x + box.width * x, box.y + y);
        await own.waitForTimeout(700);
        const frames = (await drawnBy(own)).slice(before);
        frames.forEach((f, i) => {
          frame.push(f.code);
          pixels.push(f.pixels);
          if (i > 0 && f.begun - frames[i - 1]!.begun < 200) apart.push(f.begun - frames[i - 1]!.begun);
        });
      }
      if (n === 0) await own.screenshot({ path: `${import.meta.dirname}/../../.cache/eyes/profile-million.png` });
      await context.close();
    }
    say("a click on it, to its picture", "300", open);
    say("of it the answer with what a picture needs, from the request to its last byte", "", answer);
    say("of it from the last byte to the picture: columns, sums, layout, drawing", "", rest);
    say("of it the layout and drawing", "", code);
    say("a click on it, to all calls and the table of functions", "", all);
    say("a frame of a zoom: layout and drawing", "16", frame);
    say("a frame of a zoom: its pixels, without a graphics card", "", pixels);
    say("from one frame of a zoom to the next", "", apart);
  });
});
