// From starting the program to the first point on the screen, and from asking for a day to seeing
// it. Prints a table of docs/PERFORMANCE.md.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { Eyes, freeAddress, lacks, program, until } from "./stage";

const runs = Number(process.env.RUNS ?? 5);
/** Makes the archive of a day: tools/archive. */
const archive = process.env.ARCHIVE ?? "";

/** Median, and the greatest. */
function say(what: string, goal: string, all: number[]): void {
  const sorted = [...all].sort((a, b) => a - b);
  rows.push(
    `| ${what} | ${goal} | ${Math.round(sorted[sorted.length >> 1]!)} | ${Math.round(sorted.at(-1)!)} |`,
  );
}
const rows: string[] = [];

interface Seen {
  /** When each kind of canvas had its first data on it, by the clock of the epoch. */
  first: Record<string, number>;
  /**
   * Of the newest picture of a graph: how long its code took, and then its pixels, in milliseconds.
   */
  code: number;
  pixels: number;
  at: number;
}

/**
 * Watches what is drawn, from within the page: `stroke` after a point was moved to is data on a
 * small line of a table; a graph is drawn from its clearRect to the end of the task. A read of one
 * pixel waits until all are there.
 */
function watch(): void {
  const seen: Seen = { first: {}, code: 0, pixels: 0, at: 0 };
  (window as unknown as { seen: Seen }).seen = seen;
  const now = () => performance.timeOrigin + performance.now();
  const its = CanvasRenderingContext2D.prototype;
  const { clearRect, stroke, getImageData } = its;
  its.stroke = function (this: CanvasRenderingContext2D, path?: Path2D) {
    if (path) stroke.call(this, path);
    else (stroke as () => void).call(this);
    const kind = this.canvas.clientWidth > 400 ? "graph" : "line";
    if (!(kind in seen.first)) {
      seen.first[kind] = 0;
      // It is on the screen with the frame that is made now.
      requestAnimationFrame(() => {
        const c = new MessageChannel();
        c.port1.onmessage = () => {
          seen.first[kind] = now();
        };
        c.port2.postMessage(0);
      });
    }
  };
  its.clearRect = function (
    this: CanvasRenderingContext2D,
    x: number,
    y: number,
    w: number,
    h: number,
  ) {
    clearRect.call(this, x, y, w, h);
    if (this.canvas.clientWidth <= 400 || this.canvas.clientHeight < 100) return;
    const begun = now();
    queueMicrotask(() => {
      const drawn = now();
      getImageData.call(this, 0, 0, 1, 1);
      if (now() - begun < 1) return; // nothing but cleared
      seen.code = drawn - begun;
      seen.at = now();
      seen.pixels = seen.at - drawn;
    });
  };
}

const seenBy = (page: Page) => page.evaluate(() => (window as unknown as { seen: Seen }).seen);

/**
 * Starts the program; returns its address as soon as it is printed, when it was started, and what
 * ends it.
 */
async function serve(dir: string): Promise<{ url: string; started: number; end(): Promise<void> }> {
  const started = performance.timeOrigin + performance.now();
  const child = spawn(
    program,
    ["serve", "--listen", await freeAddress(), "--dir", dir, "--for", "5m", "--print-token"],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let out = "";
  const url = await new Promise<string>((found, fail) => {
    child.stdout.on("data", (d) => {
      out += d;
      const m = /http:\S+/.exec(out);
      if (m) found(m[0]);
    });
    child.on("exit", () => fail(new Error(`culprit serve ended: ${out}`)));
  });
  return {
    url,
    started,
    end: () =>
      new Promise((r) => {
        child.removeAllListeners("exit");
        child.on("exit", () => r());
        child.kill("SIGTERM");
      }),
  };
}

describe.skipIf(lacks !== "")("the page", () => {
  let eyes: Eyes;
  beforeAll(async () => {
    eyes = await Eyes.open(true);
  });
  afterAll(async () => {
    await eyes.close();
    console.log(
      ["| on the screen | goal, ms | median, ms | most, ms |", "|---|--:|--:|--:|", ...rows].join(
        "\n",
      ),
    );
  });

  it("shows a first point", async () => {
    const address: number[] = [];
    const point: number[] = [];
    for (let n = 0; n < runs; n++) {
      const dir = mkdtempSync(join(tmpdir(), "culprit-speed-"));
      const context = await eyes.browser.newContext({ viewport: { width: 1600, height: 900 } });
      const page = await context.newPage();
      await page.addInitScript(watch);
      // Starts fall anywhere in a second.
      await new Promise((r) =>
        setTimeout(r, ((n + 0.5) * 1000) / runs - (Date.now() % 1000) + 1000),
      );
      const s = await serve(dir);
      address.push(performance.timeOrigin + performance.now() - s.started);
      await page.goto(s.url);
      const first = await until(
        "a point",
        async () => (await seenBy(page)).first.line || undefined,
      );
      point.push(first - s.started);
      await context.close();
      await s.end();
      rmSync(dir, { recursive: true, force: true });
    }
    say("the program's start to its address", "", address);
    say("the program's start to the first point of Now", "1,500", point);
  });

  it.skipIf(archive === "").each([
    ["day", "a day of 100 rows", "100"],
    ["latencies", "the heat map of a day of 20 rows", "150"],
  ])("shows a day: %s", async (kind, name, goal) => {
    const made = mkdtempSync(join(tmpdir(), "culprit-day-"));
    const sentence = execFileSync(archive, [kind, made], { encoding: "utf8" }).trim();
    const dir = mkdtempSync(join(tmpdir(), "culprit-speed-"));
    cpSync(made, dir, { recursive: true });
    const s = await serve(dir);
    const open: number[] = [];
    const click: number[] = [];
    const answer: number[] = [];
    const code: number[] = [];
    const pixels: number[] = [];
    const to = new Date(Math.floor(Date.now() / 60_000) * 60_000 - 60_000);
    const at = (hours: number) =>
      `#analytics?from=${new Date(to.getTime() - hours * 3_600_000).toISOString()}&to=${to.toISOString()}&q=${encodeURIComponent(sentence)}`;
    for (let n = 0; n < runs; n++) {
      const context = await eyes.browser.newContext({ viewport: { width: 2000, height: 1100 } });
      const page = await context.newPage();
      await page.addInitScript(watch);
      await page.goto(s.url.replace(/#.*/, "") + at(24));
      const opened = await page.evaluate(() => performance.timeOrigin);
      const first = await until("a day", async () => {
        const v = await seenBy(page);
        return v.first.graph && v.at > 0 && (await quiet(page)) ? v : undefined;
      });
      open.push(first.at - opened);
      code.push(first.code);
      pixels.push(first.pixels);
      // From another time to the day, as a click does it.
      await page.evaluate((hash) => {
        location.hash = hash;
      }, at(1));
      await until("an hour", async () => (await seenBy(page)).at > first.at && (await quiet(page)));
      const before = (await seenBy(page)).at;
      const clicked = await page.evaluate((hash) => {
        location.hash = hash;
        return performance.timeOrigin + performance.now();
      }, at(24));
      const day = await until("the day again", async () => {
        const v = await seenBy(page);
        // What was there is drawn at once, and again when the answer is there: of a heat map that
        // to the query without rows, which is asked first.
        const answered = await page.evaluate(
          (since) =>
            performance
              .getEntriesByType("resource")
              .filter((e) => e.name.includes("/api/ask?"))
              .map((e) => e as PerformanceResourceTiming)
              .filter((e) => performance.timeOrigin + e.startTime >= since)
              .map((e) => [performance.timeOrigin + e.responseEnd, e.duration] as const)
              .at(0),
          clicked,
        );
        if (!answered || !(v.at > Math.max(before, answered[0])) || !(await quiet(page))) return;
        answer.push(answered[1]);
        return v;
      });
      click.push(day.at - clicked);
      code.push(day.code);
      pixels.push(day.pixels);
      if (existsSync(process.env.PICTURE ?? ""))
        await page.screenshot({ path: join(process.env.PICTURE!, `day-${n}.png`) });
      await context.close();
    }
    await s.end();
    rmSync(dir, { recursive: true, force: true });
    rmSync(made, { recursive: true, force: true });
    say(`a page opened at ${name}, to its picture`, "", open);
    say("a click from an hour to the day, to its picture", kind === "day" ? "" : goal, click);
    say("of it the answer, from the request to its last byte", "", answer);
    say("of it the code that draws", kind === "day" ? goal : "16", code);
    say("of it the pixels, which another thread makes where nobody asks", "", pixels);
  });
});

/** Whether nothing is drawn any more for a moment. */
async function quiet(page: Page): Promise<boolean> {
  const { at } = await seenBy(page);
  await new Promise((r) => setTimeout(r, 300));
  return (await seenBy(page)).at === at;
}
