import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, load, picture, Served, until } from "./stage";

/**
 * A way to the server on which a comparison takes as long as the test wants: its parts are those of
 * the real one, and come when the test says so.
 */
class SlowWay {
  /** Comparisons that were asked for and have not ended. */
  open: ServerResponse[] = [];
  /** Comparisons whose reader left. */
  left = 0;
  private constructor(private readonly server: ReturnType<typeof createServer>) {}

  static async to(served: Served): Promise<SlowWay> {
    const way = new SlowWay(
      createServer((q, a) => {
        if (q.url?.startsWith("/api/changed?")) {
          a.writeHead(200, { "Content-Type": "text/event-stream" });
          a.flushHeaders();
          way.open.push(a);
          a.on("close", () => {
            if (!a.writableFinished) way.left++;
            way.open = way.open.filter((o) => o !== a);
          });
          return;
        }
        const on = request(
          served.url.slice(0, -1) + q.url,
          { method: q.method, headers: q.headers },
          (got) => {
            a.writeHead(got.statusCode ?? 502, got.headers);
            got.pipe(a);
          },
        );
        on.on("error", () => a.destroy());
        a.on("close", () => on.destroy());
        q.pipe(on);
      }),
    );
    await new Promise<void>((done) => way.server.listen(0, "127.0.0.1", done));
    return way;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  /** Sends an event on the newest comparison; the last one ends it. */
  send(name: "part" | "report", data: object): void {
    const a = this.open.at(-1)!;
    a.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    if (name === "report") a.end();
  }

  async end(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

/** Seconds of each of the two times. */
const seconds = 12;

describe.skipIf(lacks !== "")("what changed", () => {
  let served: Served;
  let eyes: Eyes;
  let middle = 0;

  beforeAll(async () => {
    eyes = await Eyes.open();
    served = await Served.start();
    const newest = async () => {
      const { start_ms, step_ms, elapsed_ms } = await served.get<{
        start_ms: number;
        step_ms: number;
        elapsed_ms: number[];
      }>("ask?q=cpu.time&from=-3s&to=now&step=1000");
      return start_ms + step_ms * elapsed_ms.length;
    };
    const begun = await newest();
    await until("a calm time", async () => (await newest()) >= begun + seconds * 1000, 90_000);
    const calm = load(3);
    middle = (await newest()) + 1000;
    await until(
      "a busy time",
      async () => (await newest()) >= middle + (seconds + 1) * 1000,
      90_000,
    );
    calm();
  }, 240_000);

  afterAll(async () => {
    await served?.end();
    await eyes?.close();
  });

  const place = () => `#analytics?a=${middle}&b=${middle + seconds * 1000}&against=before`;

  it("names the program, and a click opens its graph at that time", async () => {
    const { page, wrong } = await eyes.at(served, place(), { width: 1440, height: 900 });
    await page.waitForSelector(".changed[data-state=shown]");
    const chip = page.locator(".changed .chip", { hasText: /process sh / }).first();
    await chip.waitFor();
    await picture(page, "changed");
    await accessible(page);
    await fits(page);
    await chip.click();
    // A new graph above the others, or the one that was there. The value is the only one that is
    // selected, and both times are in sight.
    const graph = page.locator("[data-graph][data-state=shown]:has(tr.selected)");
    await graph.waitFor();
    expect(await graph.getAttribute("aria-label")).toMatch(/process\.\S+ by process/);
    await until("it is in sight", async () =>
      graph.evaluate((g) => {
        const { top, bottom } = g.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      }),
    );
    expect(await graph.locator("tr.selected").count()).toBe(1);
    expect(await graph.locator("tr.selected").innerText()).toContain("sh");
    const state = new URLSearchParams(page.url().split("?").at(-1));
    expect(Date.parse(state.get("from") ?? "")).toBeLessThanOrEqual(middle - seconds * 1000);
    expect(Date.parse(state.get("to") ?? "")).toBeGreaterThanOrEqual(middle + seconds * 1000);
    expect(wrong).toEqual([]);
  });

  it("shows how far it is and what it has so far, and can be stopped", async () => {
    const way = await SlowWay.to(served);
    try {
      const second = 1000;
      const report = await served.get<{ changes: object[] }>(
        `changed?from=${middle}&to=${middle + seconds * second}`,
      );
      expect(report.changes.length).toBeGreaterThan(1);
      const { page, wrong } = await eyes.at(served, place(), { base: way.url });
      await until("the comparison is asked for", async () => way.open.length === 1);
      await page.getByText("comparing all statistics").waitFor();

      way.send("part", { read: 3, of: 90, report: { ...report, changes: [] } });
      await page.getByText("3 of 90 statistics read: no change yet").waitFor();
      const some = { ...report, changes: report.changes.slice(0, 1) };
      way.send("part", { read: 40, of: 90, report: some });
      await page.getByText("40 of 90 statistics read: the largest changes so far").waitFor();
      const bar = page.getByRole("progressbar", { name: "statistics read" });
      expect(await bar.evaluate((e: HTMLProgressElement) => [e.value, e.max])).toEqual([40, 90]);
      const rows = page.locator(".changed tbody tr");
      expect(await rows.count()).toBe(1);
      expect(await page.locator(".changed").getAttribute("data-state")).toBe("part");
      await accessible(page);
      await fits(page);
      await picture(page, "changed-part");

      // By the keyboard: what was found stays, and the server need not go on.
      const stop = page.getByRole("button", { name: "stop", exact: true });
      await stop.focus();
      await page.keyboard.press("Enter");
      await page.getByText("Stopped after 40 of 90 statistics").waitFor();
      expect(await rows.count()).toBe(1);
      await until("the server knows that nobody waits", async () => way.left === 1);
      expect(way.open.length).toBe(0);

      // Another comparison begins from nothing and ends by itself.
      await page.getByLabel("compare A to B with").selectOption("around");
      await until("the next one is asked for", async () => way.open.length === 1);
      expect(await page.getByText("Stopped after").count()).toBe(0);
      way.send("part", { read: 89, of: 90, report: some });
      await page.getByText("89 of 90 statistics read").waitFor();
      way.send("report", report);
      await page.waitForSelector(".changed[data-state=shown]");
      expect(await page.getByRole("progressbar").count()).toBe(0);
      expect(await rows.count()).toBeGreaterThan(1);

      // To leave is to stop.
      await page.getByLabel("compare A to B with").selectOption("before");
      await until("a third one", async () => way.open.length === 1);
      await page.getByRole("button", { name: "close what changed" }).click();
      await until("it is stopped too", async () => way.left === 2);
      expect(wrong).toEqual([]);
    } finally {
      await way.end();
    }
  });

  it("begins with a button: the time in sight against the time before it", async () => {
    const { page, wrong } = await eyes.at(served, "#analytics?last=10s", {});
    await page.waitForSelector('[data-graph="0"][data-state=shown]');
    await page.getByRole("button", { name: "what changed", exact: true }).click();
    await page.waitForSelector(".changed[data-state=shown], .changed[data-state=trouble]");
    const state = new URLSearchParams(page.url().split("?").at(-1));
    expect(Number(state.get("b")) - Number(state.get("a"))).toBe(10_000);
    await page.getByLabel("compare A to B with").selectOption("around");
    await page.waitForSelector(".changed[data-state=shown], .changed[data-state=trouble]");
    expect(page.url()).toContain("against=around");
    await page.getByRole("button", { name: "close what changed" }).click();
    expect(await page.locator(".changed").count()).toBe(0);
    expect(wrong.filter((w) => !w.includes("404"))).toEqual([]);
  });

  it("Shift and drag set both marks", async () => {
    const { page, wrong } = await eyes.at(served, "#analytics?last=1m", {});
    await page.waitForSelector('[data-graph="0"][data-state=shown]');
    const box = (await page.locator('[data-graph="0"] canvas.over').boundingBox())!;
    await page.keyboard.down("Shift");
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    const state = new URLSearchParams(page.url().split("?").at(-1));
    const span = Number(state.get("b")) - Number(state.get("a"));
    expect(span).toBeGreaterThan(10_000);
    expect(span).toBeLessThan(25_000);
    expect(state.get("last")).toBe("1m"); // nothing was zoomed
    expect(wrong).toEqual([]);
  });

  it("fits a telephone and is accessible there", async () => {
    const { page, wrong } = await eyes.at(served, place(), {
      width: 390,
      height: 844,
      theme: "light",
    });
    await page.waitForSelector(".changed[data-state=shown]");
    await picture(page, "changed-telephone");
    await fits(page);
    await accessible(page);
    expect(wrong).toEqual([]);
  });
});
