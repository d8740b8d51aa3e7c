import { type ChildProcess, spawn } from "node:child_process";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const missing =
  lacks !== "" ? lacks : process.getuid?.() !== 0 ? "needs: root (traced statistics)" : "";

const quick = "quickclient";
const slow = "slowclient";
/** A name as long as the kernel keeps: 15 bytes. */
const pause = { [quick]: 0.003, [slow]: 0.06 };

/**
 * Two programs that make one system call, again and again: the quick one 19 of 20 calls of some 3
 * ms, the slow one the twentieth, of 60 ms. Each names itself, so that nothing else has its name.
 */
function bimodal(): () => void {
  const children: ChildProcess[] = Object.entries(pause).map(([name, seconds]) =>
    spawn(
      "perl",
      ["-e", `$0 = "${name}"; while (1) { select(undef, undef, undef, ${seconds}); }`],
      {
        stdio: "ignore",
      },
    ),
  );
  return () => {
    for (const c of children) c.kill("SIGKILL");
  };
}

const names = `process in ("${quick}", "${slow}")`;
const statistic = `syscall.latency by syscall,process where ${names}`;

interface Dists {
  series: { key: string[]; dists: ({ first: number; counts: number[]; base: number } | null)[] }[];
}

/** The bounds of the axis, and the canvas that takes the pointer. */
async function plotOf(page: Page): Promise<{ canvas: Locator; low: number; high: number }> {
  const plot = page.locator('[data-graph="0"] .plot');
  await plot.waitFor();
  await until(
    "the map has an axis",
    async () => Number(await plot.getAttribute("data-high")) > 1e6,
  );
  const [low, high] = [await plot.getAttribute("data-low"), await plot.getAttribute("data-high")];
  return { canvas: plot.locator("canvas.over"), low: Number(low), high: Number(high) };
}

const gutter = 52;

/** Rows of pixels that have colours of the map, from the top: 1 where any has. */
async function lit(page: Page): Promise<boolean[]> {
  return page.evaluate((left) => {
    const canvas = document.querySelector<HTMLCanvasElement>(
      '[data-graph="0"] .plot canvas:not(.over)',
    )!;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {
      willReadFrequently: true,
    })!;
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(left, 0, canvas.width - left, canvas.height);
    const width = canvas.width - left;
    return Array.from({ length: canvas.height }, (_, y) => {
      let n = 0;
      for (let x = 0; x < width; x++) {
        const [r, g, b, a] = [0, 1, 2, 3].map((i) => data[(y * width + x) * 4 + i]!);
        // Cividis from its middle up: yellow, without the grey of lines and text.
        if (a! > 200 && r! > 100 && g! > 90 && b! < r! - 8 && r! - g! < 60) n++;
      }
      return n > 8;
    });
  }, gutter);
}

/** Drags over the map from one share of the time and value to another. */
async function drag(
  page: Page,
  low: number,
  high: number,
  values: [number, number],
  time: [number, number],
): Promise<void> {
  const box = (await page.locator('[data-graph="0"] .plot canvas.over').boundingBox())!;
  const y = (v: number): number =>
    box.y +
    6 +
    (box.height - 7) * (1 - (Math.log2(v) - Math.log2(low)) / (Math.log2(high) - Math.log2(low)));
  const x = (share: number): number => box.x + gutter + (box.width - gutter - 1) * share;
  await page.mouse.move(x(time[0]), y(values[0]));
  await page.mouse.down();
  await page.mouse.move(x((time[0] + time[1]) / 2), y(Math.sqrt(values[0] * values[1])));
  await page.mouse.move(x(time[1]), y(values[1]));
  await page.mouse.up();
}

describe.skipIf(missing !== "")(`a heat map${missing === "" ? "" : ` (${missing})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  let end = () => {};
  beforeAll(async () => {
    end = bimodal();
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    await fetch(`${served.url}api/datasets`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${served.token}`,
        "Content-Type": "application/json",
        "X-Culprit": "1",
      },
      body: JSON.stringify({ sentence: statistic, step_ms: 1000 }),
    });
    await until(
      "both programs are recorded",
      async () => {
        try {
          const a = await served.get<Dists>(
            `ask?q=${encodeURIComponent(statistic)}&from=-20s&to=now&step=1000`,
          );
          const seconds = (name: string) =>
            a.series.filter((s) => s.key[1] === name).flatMap((s) => s.dists.filter((d) => d))
              .length;
          return seconds(quick) >= 12 && seconds(slow) >= 12;
        } catch {
          return false;
        }
      },
      90_000,
    );
  });
  afterAll(async () => {
    end();
    await eyes?.close();
    await served?.end();
  });

  const place = `#analytics?last=30s&q=${encodeURIComponent(statistic)}`;

  it("shows two bands, and the rectangle over the upper one names the slow program", async () => {
    const { page, wrong } = await eyes.at(served, place, { width: 1440, height: 900 });
    const { low, high } = await plotOf(page);
    expect(low).toBeLessThan(4e6);
    expect(high).toBeGreaterThan(60e6);
    const rows = await lit(page);
    const bands = rows.filter((on, y) => on && !rows[y - 1]).length;
    expect(bands, "bands of colours, from the top").toBeGreaterThanOrEqual(2);
    await drag(page, low, high, [250e6 < high ? 250e6 : high * 0.95, 40e6], [0.05, 0.95]);
    const panel = page.locator(".standout");
    const first = panel.locator('[data-field="process"] tbody tr').first();
    await first.waitFor();
    expect(await first.locator(".text").textContent()).toBe(slow);
    expect(await first.locator("td.num").first().textContent()).toMatch(/^(100\.0|9\d\.\d) %$/);
    // The field by which both differ is the first.
    expect(await panel.locator("table").first().getAttribute("data-field")).toBe("process");
    await picture(page, "heat-map");
    await accessible(page);
    await fits(page);
    // The address has it.
    const shared = await eyes.at(served, new URL(page.url()).hash);
    await shared.page.locator('.standout [data-field="process"] tbody tr').first().waitFor();
    // Not recorded: it is said, and may be recorded.
    expect(await panel.locator('[data-missing="error"]').textContent()).toMatch(
      /not recorded.*record it/s,
    );
    // One click narrows the graph.
    await first.getByRole("button", { name: /^only these/ }).click();
    await until("the query is narrowed", async () =>
      (await page.locator('[data-graph="0"] .sentence').textContent())?.includes(
        `process = "${slow}"`,
      ),
    );
    expect(wrong).toEqual([]);
  });

  it("is chosen from by keyboard", async () => {
    const { page, wrong } = await eyes.at(served, place);
    await plotOf(page);
    await page.locator('[data-graph="0"] .plot').focus();
    await page.keyboard.press("Shift+ArrowLeft");
    const at = page.locator('[data-graph="0"] [role="status"]');
    await until("the cell is read out", async () =>
      /of \d+ events/.test((await at.textContent()) ?? ""),
    );
    for (let i = 0; i < 4; i++) await page.keyboard.press("Shift+ArrowLeft");
    await page.keyboard.press("Enter");
    for (let i = 0; i < 3; i++) await page.keyboard.press("Shift+ArrowRight");
    for (let i = 0; i < 4; i++) await page.keyboard.press("Shift+ArrowUp");
    await page.keyboard.press("Enter");
    await page.locator(".standout h3 b").waitFor();
    expect(new URL(page.url()).hash).toMatch(/box%3D\d+|box=\d+/);
    await page.keyboard.press("Escape");
    await page.locator(".standout").waitFor({ state: "detached" });
    expect(wrong).toEqual([]);
  });

  it("switches to lines and back, and crops by share of events", async () => {
    const { page, wrong } = await eyes.at(served, place);
    const before = await plotOf(page);
    await page.getByRole("combobox", { name: "clip top" }).selectOption("5");
    await page.locator('[data-graph="0"] .note.hot').waitFor();
    expect(await page.locator('[data-graph="0"] .note.hot').textContent()).toMatch(
      /^\d+ of \d+ events above/,
    );
    expect((await plotOf(page)).high).toBeLessThanOrEqual(before.high);
    await page.keyboard.press("w");
    await until("lines", async () => new URL(page.url()).hash.includes("lines"));
    expect(await page.locator('[data-graph="0"] .legend').count()).toBe(0);
    await page.keyboard.press("w");
    await page.locator('[data-graph="0"] .legend').waitFor();
    expect(wrong).toEqual([]);
  });

  it("fits a phone, in the light theme, with a rectangle chosen", async () => {
    const { page, wrong } = await eyes.at(served, place, {
      width: 390,
      height: 844,
      theme: "light",
    });
    const { low, high } = await plotOf(page);
    await drag(page, low, high, [high * 0.9, low * 1.1], [0.4, 0.9]);
    await page.locator(".standout table").first().waitFor();
    await fits(page);
    await accessible(page);
    await picture(page, "heat-map-phone");
    await page.locator(".standout").scrollIntoViewIfNeeded();
    await picture(page, "heat-map-phone-panel");
    expect(wrong).toEqual([]);
  });

  it("shows names of 500 characters, values from 1 to an hour, and a time without data", async () => {
    const long = "x".repeat(500);
    const made = await fetch(`${served.url}api/scripts`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${served.token}`,
        "Content-Type": "application/json",
        "X-Culprit": "1",
      },
      body: JSON.stringify({
        name: "wide",
        record: true,
        text: `#pragma D option strsize=512\nprofile:::tick-20hz { @lat["${long}"] = quantize(1); @lat["<b>\u202eünï"] = quantize(3600000000000); }`,
      }),
    });
    const script = (await made.json()) as { stats: { id: string; fields: { name: string }[] }[] };
    expect(script.stats?.length, JSON.stringify(script)).toBe(1);
    const { id, fields } = script.stats[0]!;
    const q = `${id} by ${fields[0]!.name}`;
    await until("both values are recorded", async () => {
      try {
        const a = await served.get<Dists>(
          `ask?q=${encodeURIComponent(q)}&from=-10s&to=now&step=1000`,
        );
        return a.series.length === 2 && a.series.every((s) => s.dists.filter((d) => d).length > 3);
      } catch {
        return false;
      }
    });
    for (const width of [1280, 390]) {
      const { page, wrong } = await eyes.at(
        served,
        `#analytics?last=15s&q=${encodeURIComponent(q)}`,
        {
          width,
        },
      );
      await page.locator('[data-graph="0"] .plot').waitFor();
      await until("the whole axis", async () => {
        const plot = page.locator('[data-graph="0"] .plot');
        const [low, high] = [
          await plot.getAttribute("data-low"),
          await plot.getAttribute("data-high"),
        ];
        return Number(low) <= 1 && Number(high) > 3.6e12;
      });
      await drag(page, 1, 4.4e12, [4e12, 2e12], [0.3, 0.95]);
      const first = page.locator(".standout table tbody tr").first();
      await first.waitFor();
      expect(await first.locator(".text").textContent()).toContain("ünï");
      await fits(page);
      await accessible(page);
      await picture(page, `heat-map-hostile-${width}`);
      expect(wrong).toEqual([]);
    }
    const { page, wrong } = await eyes.at(
      served,
      `#analytics?from=2026-01-02T00:00:00Z&to=2026-01-02T00:10:00Z&q=${encodeURIComponent(q)}`,
    );
    await page.getByText("nothing was measured in this time").waitFor();
    const box = (await page.locator('[data-graph="0"] .plot').boundingBox())!;
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await page.locator('[data-graph="0"] .plot').focus();
    await page.keyboard.press("Shift+ArrowUp");
    await page.keyboard.press("Enter");
    expect(await page.locator(".standout").count()).toBe(0);
    expect(wrong).toEqual([]);
  });
});
