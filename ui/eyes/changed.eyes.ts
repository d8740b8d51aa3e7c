import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, load, picture, Served, until } from "./stage";

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
    await page.waitForSelector('[data-graph="0"][data-state=shown]');
    const graph = page.locator('[data-graph="0"]');
    expect(await graph.getAttribute("aria-label")).toMatch(/process\.\S+ by process/);
    // The value is the only one that is selected, and both times are in sight.
    expect(await graph.locator("tr.selected").count()).toBe(1);
    expect(await graph.locator("tr.selected").innerText()).toContain("sh");
    const state = new URLSearchParams(page.url().split("?").at(-1));
    expect(Date.parse(state.get("from") ?? "")).toBeLessThanOrEqual(middle - seconds * 1000);
    expect(Date.parse(state.get("to") ?? "")).toBeGreaterThanOrEqual(middle + seconds * 1000);
    expect(wrong).toEqual([]);
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
