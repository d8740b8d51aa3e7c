import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

interface Answer {
  start_ms: number;
  step_ms: number;
  elapsed_ms: number[];
  series: { key: string[]; values: (number | null)[] }[];
}

const query = "cpu.time by mode";
const q = `q=${encodeURIComponent(query)}`;
const seconds = 15;

describe.skipIf(lacks !== "")("an earlier time behind a graph", () => {
  let served: Served;
  let eyes: Eyes;

  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    // As many seconds as are compared, and some without a recording before them.
    await until(
      "the seconds before",
      async () => {
        const a = await served.get<Answer>(`ask?${q}&from=-${2 * seconds}s&to=now&step=1000`);
        return a.elapsed_ms.filter((ms) => ms > 0).length > seconds + 5;
      },
      120_000,
    );
  }, 240_000);

  afterAll(async () => {
    await served?.end();
    await eyes?.close();
  });

  it("is chosen by a list, by a key and by typing, and is in the address", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`);
    const graph = page.locator('[data-graph="0"]');
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    const choice = graph.getByLabel("compare graph 1 with an earlier time");
    await choice.selectOption("yesterday");
    await until("the address has it", async () => page.url().includes("earlier%3D1d"));
    // Nothing was recorded yesterday, and that is said and no number is shown.
    await graph.getByText("nothing was recorded then").waitFor();
    const then = graph.locator(".panel tbody tr").first().locator("td.num").nth(1);
    expect(await then.innerText()).toBe("–");
    await accessible(page);
    await picture(page, "earlier-nothing");
    await graph.hover();
    await page.keyboard.press("b");
    await until("the week", async () => page.url().includes("earlier%3D7d"));
    await choice.selectOption("typed");
    const field = graph.getByLabel("time before, of graph 1");
    await field.fill("5s");
    await graph.getByText("at least 10s").waitFor();
    await accessible(page);
    await field.fill(`${seconds}s`);
    await page.keyboard.press("Enter");
    await until("what was typed", async () => page.url().includes(`earlier%3D${seconds}s`));
    await page.reload();
    await graph.getByText(`${seconds} s before:`).waitFor();
    expect(wrong).toEqual([]);
  });

  it("has the numbers of that time at the pointer, and the difference", async () => {
    const o = `o=table+earlier%3D${seconds}s`;
    const { page, wrong } = await eyes.at(served, `#analytics?last=${2 * seconds}s&${q}&${o}`, {
      width: 1440,
      height: 900,
    });
    const graph = page.locator('[data-graph="0"]');
    await graph.locator(".twin tbody tr").first().waitFor();
    await page.keyboard.press(" ");
    await until("the page is paused", async () => page.url().includes("to="));
    await page.waitForTimeout(2500); // the last second of it comes a little later
    await page.reload();
    await graph.getByText(`${seconds} s before:`).waitFor();
    await graph.locator(".twin tbody tr").first().waitFor();
    await until("its rows", async () =>
      /\d/.test(
        await graph.locator(".panel tbody tr").first().locator("td.num").nth(1).innerText(),
      ),
    );
    const twin = await page.evaluate(() => {
      const t = document.querySelector('[data-graph="0"] .twin table')!;
      return {
        names: [...t.querySelectorAll<HTMLElement>("thead th[data-row]")].map(
          (h) => h.dataset.row ?? "",
        ),
        lines: [...t.querySelectorAll<HTMLElement>("tbody tr")].map((tr) => ({
          ms: Number(tr.dataset.ms),
          cells: [...tr.querySelectorAll("td")].map((d) =>
            (d.textContent ?? "").replaceAll("\u202f", ""),
          ),
        })),
      };
    });
    const newest = Math.max(...twin.lines.map((l) => l.ms));
    const answer = await served.get<Answer>(
      `ask?${q}&from=${newest - 4 * seconds * 1000}&to=${newest}&step=1000`,
    );
    let compared = 0;
    for (const s of answer.series) {
      const column = twin.names.indexOf(`${s.key.join(" ")}, ${seconds} s before`);
      expect(column, s.key.join(" ")).toBeGreaterThanOrEqual(0);
      for (const line of twin.lines) {
        const c = (line.ms - seconds * 1000 - answer.start_ms) / answer.step_ms - 1;
        const v = answer.series.length > 0 ? s.values[c] : null;
        const shown = line.cells[column]!;
        if (v === null || v === undefined || answer.elapsed_ms[c] === 0) expect(shown).toBe("–");
        else {
          compared++;
          expect(Math.abs(Number(shown) - v)).toBeLessThanOrEqual(Math.abs(v) * 2e-7);
        }
      }
    }
    expect(compared).toBeGreaterThan(10);
    // The same numbers are in the CSV, which says which line is of which time.
    const saving = page.waitForEvent("download");
    await graph.getByRole("button", { name: "CSV" }).click();
    const lines = readFileSync(await (await saving).path(), "utf8")
      .trim()
      .split("\r\n");
    expect(lines[0]).toBe("time,start,end,measured_s,mode,value (ratio)");
    const saved = new Map<string, string>();
    for (const line of lines.slice(1)) {
      const [time, , end, , mode, value] = line.split(",");
      saved.set(`${time} ${Date.parse(end!)} ${mode}`, value!);
    }
    const modes = answer.series.map((s) => s.key[0]!);
    let same = 0;
    for (const [time, by] of [
      ["shown", 0],
      [`${seconds} s before`, seconds * 1000],
    ] as const)
      for (const mode of modes)
        for (const line of twin.lines) {
          const column = twin.names.indexOf(by === 0 ? mode : `${mode}, ${time}`);
          const shown = line.cells[column]!;
          const value = saved.get(`${time} ${line.ms - by} ${mode}`);
          if (shown === "–") expect(value ?? "").toBe("");
          else {
            same++;
            expect(Math.abs(Number(shown) - Number(value))).toBeLessThanOrEqual(
              Number(value) * 2e-7,
            );
          }
        }
    expect(same).toBeGreaterThan(20);
    const box = (await graph.locator("canvas.over").boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.9, box.y + 40);
    const row = graph.locator(".panel tbody tr").first();
    await until("the difference", async () =>
      /%\)$/.test((await row.locator("td.num").nth(2).getAttribute("title")) ?? ""),
    );
    const number = async (n: number): Promise<number> =>
      Number(
        (await row.locator("td.num").nth(n).getAttribute("title"))!
          .replaceAll("\u202f", "")
          .replace("\u2212", "-")
          .split(" ")[0],
      );
    const [now, then, difference] = [await number(0), await number(1), await number(2)];
    expect(difference).toBeCloseTo(now - then, 6);
    await picture(page, "earlier");
    await accessible(page);
    expect(wrong).toEqual([]);
  });

  it("follows the time, of a stack too, and fits a telephone and a wall", async () => {
    const o = `o=stack+earlier%3D${seconds}s`;
    for (const width of [390, 2560]) {
      const { page, wrong } = await eyes.at(served, `#analytics?last=20s&${q}&${o}`, {
        width,
        height: 844,
        theme: "light",
      });
      const graph = page.locator('[data-graph="0"]');
      await graph.getByText(`${seconds} s before:`).waitFor();
      const then = graph.locator(".panel tbody tr").first().locator("td.num").nth(1);
      const before = await until("a value", async () => {
        const title = (await then.getAttribute("title")) ?? "";
        return /\d/.test(title) && title;
      });
      await until("another second", async () => (await then.getAttribute("title")) !== before);
      await fits(page);
      await accessible(page);
      await picture(page, `earlier-${width}`);
      expect(wrong).toEqual([]);
    }
  });
});
