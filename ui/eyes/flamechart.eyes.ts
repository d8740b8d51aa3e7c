import { existsSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, load, picture, Served, until } from "./stage";

/**
 * A trace of two threads. ui: a frame of 40 ms with two calls of layout one after the other,
 * nothing for 30 ms, and a frame with paint. worker: decode for 5 ms.
 */
const trace = JSON.stringify([
  { ph: "M", name: "thread_name", pid: 1, tid: 2, args: { name: "ui" } },
  { ph: "M", name: "thread_name", pid: 1, tid: 3, args: { name: "worker" } },
  { ph: "X", name: "frame", pid: 1, tid: 2, ts: 0, dur: 40_000 },
  { ph: "X", name: "layout", pid: 1, tid: 2, ts: 10_000, dur: 10_000 },
  { ph: "X", name: "layout", pid: 1, tid: 2, ts: 20_000, dur: 10_000 },
  { ph: "X", name: "frame", pid: 1, tid: 2, ts: 70_000, dur: 30_000 },
  { ph: "X", name: "paint", pid: 1, tid: 2, ts: 70_000, dur: 30_000 },
  { ph: "X", name: "decode", pid: 1, tid: 3, ts: 5_000, dur: 5_000 },
]);

/** A file of speedscope with lines: work has 7 at line 5 and 3 at line 3. */
const lined = JSON.stringify({
  $schema: "https://www.speedscope.app/file-format-schema.json",
  shared: {
    frames: [
      { name: "main", file: "app.py", line: 9 },
      { name: "work", file: "app.py", line: 3 },
      { name: "work", file: "app.py", line: 5 },
    ],
  },
  profiles: [
    {
      type: "sampled",
      name: "app",
      unit: "none",
      startValue: 0,
      endValue: 10,
      samples: [
        [0, 1],
        [0, 2],
      ],
      weights: [3, 7],
    },
  ],
});

/** Opens a file as the button does. */
async function open(page: Page, name: string, text: string): Promise<void> {
  await page.locator("input[type=file]").setInputFiles({
    name,
    mimeType: "application/octet-stream",
    buffer: Buffer.from(text),
  });
  await page.waitForSelector("[data-chosen] .twin tbody tr");
}

/** The functions of the table, with what they have in themselves, at one moment. */
async function functions(page: Page): Promise<Record<string, string>> {
  const rows = await page
    .locator(".twin tbody tr")
    .evaluateAll((all) =>
      all.map((row) => [
        row.querySelector("th")?.textContent?.trim() ?? "",
        row.querySelector("td.num")?.textContent?.trim() ?? "",
      ]),
    );
  return Object.fromEntries(rows.map(([name, self]) => [name, self!.replaceAll("\u202f", " ")]));
}

/** Wants the table to become what is given. */
async function wantsTable(page: Page, want: Record<string, string>): Promise<void> {
  let got: Record<string, string> = {};
  await until(`the table ${JSON.stringify(want)}`, async () => {
    got = await functions(page).catch(() => ({}));
    return (
      JSON.stringify(Object.entries(got).sort()) === JSON.stringify(Object.entries(want).sort())
    );
  }).catch((e) => {
    throw new Error(`${e}: the table is ${JSON.stringify(got)}`);
  });
}

describe.skipIf(lacks !== "")(`flame chart${lacks ? ` (${lacks})` : ""}`, () => {
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open();
  }, 60_000);
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
  }, 30_000);

  it("shows calls in the order of time, zooms to a stretch, and has its numbers in the table", {
    timeout: 90_000,
  }, async () => {
    for (const how of [
      { theme: "dark", width: 1280 },
      { theme: "light", width: 390 },
    ] as const) {
      const { page, context, wrong } = await eyes.at(served, "#profile", how);
      await open(page, "trace.json", trace);
      await page.getByRole("button", { name: "in time" }).click();
      await until("the chart", async () => (await page.locator(".axis span").count()) > 1);
      await wantsTable(page, { ui: "0 ns", frame: "20.0 ms", layout: "20.0 ms", paint: "30.0 ms" });
      expect(page.url()).toContain("order=time");
      const canvas = page.locator(".graph canvas").first();
      const { width } = (await canvas.boundingBox())!;
      // The time of all threads is 100 ms: layout is from 10 to 30, and nothing from 40 to 70.
      await until("the second layout", async () => {
        await canvas.hover({ position: { x: width * 0.25, y: 45 } });
        return (await page.locator(".about").innerText()).includes("10.0 ms from 20.0 ms");
      });
      await until("the gap", async () => {
        await canvas.hover({ position: { x: width * 0.55, y: 27 } });
        return !(await page.locator(".about").innerText()).includes("frame");
      });
      await page.waitForTimeout(300);
      await picture(page, `flamechart-${how.width}`);
      await fits(page);
      await accessible(page);

      await page.locator(".axis").scrollIntoViewIfNeeded();
      const axis = (await page.locator(".axis").boundingBox())!;
      await page.mouse.move(axis.x + axis.width * 0.7, axis.y + 8);
      await page.mouse.down();
      await page.mouse.move(axis.x + axis.width * 0.85, axis.y + 8, { steps: 4 });
      await page.mouse.up();
      await until("a zoom to the stretch", async () => /[?&]l=0\.[67]/.test(page.url()));
      await until("its table", async () => {
        const f = await functions(page);
        return Object.keys(f).sort().join() === "frame,paint,ui" && f.paint!.startsWith("1");
      });
      await picture(page, `flamechart-zoom-${how.width}`);
      await page.keyboard.press("0");
      await wantsTable(page, { ui: "0 ns", frame: "20.0 ms", layout: "20.0 ms", paint: "30.0 ms" });
      await page.getByRole("combobox", { name: "thread", exact: true }).selectOption({ index: 1 });
      await wantsTable(page, { worker: "0 ns", decode: "5.00 ms" });
      expect(wrong).toEqual([]);
      await context.close();
    }
  });

  it("goes by the keyboard alone: order of time, from call to call, zoom and back", {
    timeout: 60_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile");
    await open(page, "trace.json", trace);
    await page.keyboard.press("f");
    await until("the chart", async () => (await page.locator(".axis span").count()) > 1);
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowDown");
    await until("the first layout", async () =>
      (await page.locator(".about").innerText()).includes("10.0 ms from 10.0 ms"),
    );
    await page.keyboard.press("ArrowRight");
    await until("the second layout", async () =>
      (await page.locator(".about").innerText()).includes("10.0 ms from 20.0 ms"),
    );
    await page.keyboard.press("Enter");
    await wantsTable(page, { ui: "0 ns", frame: "0 ns", layout: "10.0 ms" });
    const there = page.url();
    await page.goto("about:blank");
    await page.goto(there);
    await wantsTable(page, { ui: "0 ns", frame: "0 ns", layout: "10.0 ms" });
    await page.keyboard.press("f");
    await until("the flame graph", async () => (await page.locator(".axis").count()) === 0);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("says of a profile without times that it has none, and shows the lines of a function", {
    timeout: 60_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile");
    await open(page, "app.speedscope.json", lined);
    await page.getByRole("button", { name: "in time" }).click();
    await until("why there is none", async () =>
      (await page.locator("main").innerText()).includes("does not say when its stacks ran"),
    );
    await page.keyboard.press("f");
    await page.getByRole("button", { name: "work", exact: true }).last().click();
    const table = page.getByRole("region", { name: "source lines of work" });
    await table.waitFor();
    const text = (await table.locator("tbody").innerText()).replaceAll("\u202f", " ");
    expect(
      text
        .split("\n")
        .map((l) => l.replace(/\s+/g, " ").trim())
        .filter((l) => l !== ""),
    ).toEqual(["7 70.00 % 7 70.00 % app.py:5", "3 30.00 % 3 30.00 % app.py:3"]);
    await page.waitForTimeout(300);
    await fits(page);
    await accessible(page);
    await picture(page, "profile-lines");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it.skipIf(process.getuid?.() !== 0 || !existsSync("/proc/self"))(
    "shows recorded samples by the second (needs: root)",
    { timeout: 180_000 },
    async () => {
      const stop = load(1);
      try {
        const { page, context, wrong } = await eyes.at(served, "#profile");
        const button = page.getByRole("button", { name: "busiest second" });
        await until(
          "samples",
          async () => (await button.count()) > 0 && (await button.isEnabled()),
        );
        await page.waitForTimeout(6000);
        await page.reload();
        await until("more", async () => (await button.count()) > 0 && (await button.isEnabled()));
        await button.click();
        await until("its time", async () => /p=\d+\.\.\d+/.test(page.url()));
        const [, from, to] = /p=(\d+)\.\.(\d+)/.exec(page.url())!;
        const there = page.url().replace(/p=\d+\.\.\d+/, `p=${Number(from) - 3000}..${to}`);
        await page.goto("about:blank");
        await page.goto(there);
        await page.waitForSelector("[data-chosen] .twin tbody tr");
        await page.keyboard.press("f");
        await until("the chart", async () => (await page.locator(".axis span").count()) > 1);
        expect((await page.locator(".trail").innerText()).replaceAll("\u202f", " ")).toContain(
          "the order within 1.00 s is not recorded",
        );
        await until(
          "a table",
          async () => (await page.locator("[data-chosen] .twin tbody tr").count()) > 2,
        );
        await page.waitForTimeout(400);
        await accessible(page);
        await picture(page, "flamechart-recorded");
        // A profile of CPUs that is taken has the times of its samples, by thread.
        await page.keyboard.press("f");
        await page.getByLabel("for how long").selectOption("3");
        await page.getByRole("button", { name: "take a profile" }).click();
        await until("the profile", async () => !/p=\d+\.\./.test(page.url()), 60_000);
        await page.waitForSelector("[data-chosen] .twin tbody tr");
        await page.getByRole("button", { name: "in time" }).click();
        await until("its chart", async () => (await page.locator(".axis span").count()) > 1);
        expect((await page.locator(".trail").innerText()).replaceAll("\u202f", " ")).toContain(
          "a sample counts for at most 15.2 ms",
        );
        const lane = page.getByRole("combobox", { name: "thread", exact: true });
        const lanes = await lane.locator("option").allInnerTexts();
        const busy = lanes.findIndex((l) => /^sh \d+, /.test(l));
        expect(busy, lanes.slice(0, 20).join("; ")).toBeGreaterThanOrEqual(0);
        await lane.selectOption({ index: busy });
        await until("only what it ran", async () => {
          const names = Object.keys(await functions(page));
          return names.includes("sh") && !names.some((n) => n.startsWith("swapper"));
        });
        await accessible(page);
        await picture(page, "flamechart-taken");
        // One of waits has none, and says so. It needs the list of tracepoints.
        if (existsSync("/sys/kernel/tracing/events/sched")) {
          const shown = () => /[?&]p=(\w+)/.exec(page.url())?.[1] ?? "";
          const before = shown();
          await page.keyboard.press("f");
          await until("the flame graph", async () => !page.url().includes("order=time"));
          await page.getByRole("button", { name: "off-CPU" }).click();
          await page.getByRole("button", { name: "take a profile" }).click();
          await until(
            "the profile of waits",
            async () => shown() !== "" && shown() !== before,
            60_000,
          );
          await page.waitForSelector("[data-chosen] .twin tbody tr");
          await page.getByRole("button", { name: "in time" }).click();
          await until("that it has none", async () =>
            (await page.locator("main").innerText()).includes("does not say when its stacks ran"),
          );
        }
        expect(wrong).toEqual([]);
        await context.close();
      } finally {
        stop();
      }
    },
  );
});
