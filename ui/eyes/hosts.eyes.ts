// The view of hosts, of a real engine.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine, lacksEngine } from "./engine";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const missing = lacks || lacksEngine;

/** Waits until the hosts and the curves of the first of them are shown. */
async function opened(page: Page): Promise<void> {
  await page.waitForSelector("tbody tr");
  await until("curves", async () => (await page.locator("tbody tr td canvas").count()) > 0);
  await page.waitForTimeout(400);
}

/** Wants all that is written of a host to be within its cell. */
async function contained(page: Page): Promise<void> {
  const beyond = await page
    .locator("tbody th .line")
    .evaluateAll((all) =>
      all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent),
    );
  expect(beyond).toEqual([]);
}

/** The names of the rows, in order. */
async function names(page: Page): Promise<string[]> {
  const all = await page.locator("tbody th").allInnerTexts();
  return all.map((t) => t.trim().split(/\s/)[0]!);
}

describe.skipIf(missing !== "")(`hosts${missing ? ` (${missing})` : ""}`, () => {
  let engine: Engine;
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    engine = await Engine.start();
    served = await Served.start("--engine", engine.url, "--host-url", "http://{host}:7410/");
    eyes = await Eyes.open();
  }, 90_000);
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
    await engine?.end();
  }, 30_000);

  for (const theme of ["dark", "light"] as const)
    it(`shows findings first, then the host that differs, ${theme}`, async () => {
      const { page, context, wrong } = await eyes.at(served, "#hosts", { theme, height: 1000 });
      await opened(page);
      expect((await names(page)).slice(0, 4)).toEqual(["client2", "client4", "client9", "client0"]);
      expect(await page.locator(".bar p").innerText()).toContain("9 of 10");
      expect(await page.locator(".bar p").innerText()).toContain("1 with findings");
      const slow = page.locator("tbody tr", { hasText: "client4" });
      expect(await slow.innerText()).toMatch(
        /its busiest interface sends 1\.\d+ MB\/s, (89|90|91) % less than the median of the 8 others/,
      );
      const silent = page.locator("tbody tr", { hasText: "client9" });
      expect(await silent.innerText()).toMatch(/silent for [45] min/);
      // The mark is beside the number, in view, and of another colour than the other numbers.
      const marked = slow.locator("td .warm");
      expect(await marked.count()).toBe(2);
      const colour = (of: typeof marked) => of.evaluate((e) => getComputedStyle(e).color);
      for (const m of await marked.all()) {
        expect(await m.innerText()).toMatch(/^△/);
        const box = (await m.boundingBox())!;
        expect(box.x + box.width).toBeLessThanOrEqual(1280);
        expect(await colour(m)).not.toBe(await colour(slow.locator("td span:not(.warm)").first()));
      }
      expect(await page.locator("td .warm").count(), "marks of other hosts").toBe(2);
      await fits(page);
      await contained(page);
      await accessible(page);
      await picture(page, `hosts-${theme}`);
      expect(wrong).toEqual([]);
      await context.close();
    });

  it("searches and groups, and keeps both in the address", async () => {
    const { page, context, wrong } = await eyes.at(served, "#hosts");
    await opened(page);
    await page.keyboard.press("/");
    await page.keyboard.type("rack=r0 sends");
    await until(
      "the host that differs alone",
      async () => (await names(page)).join() === "client4",
    );
    await page.getByLabel("find hosts").fill("rack=r1");
    await page.getByLabel("by").selectOption("rack");
    await until("its group", async () => (await page.locator("h2").count()) === 1);
    expect(await page.locator("h2").innerText()).toContain("4 of 5 reported, 0 findings");
    await page.waitForTimeout(400);
    await picture(page, "hosts-group");
    const there = page.url();
    await page.goto("about:blank");
    await page.goto(there);
    await opened(page);
    expect((await names(page)).sort()).toEqual([1, 3, 5, 7, 9].map((i) => `client${i}`));
    await page.getByLabel("find hosts").fill("nothing of this name");
    await until("no row", async () => (await page.locator("tbody tr").count()) === 0);
    expect(await page.locator("main").innerText()).toContain("No host matches.");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("leads to the server of a host", async () => {
    const { page, context } = await eyes.at(served, "#hosts");
    await opened(page);
    const profile = page.getByRole("link", { name: "profile of client4" });
    expect(await profile.getAttribute("href")).toMatch(/^http:\/\/client4:7410\/#profile/);
    await context.close();
  });

  for (const theme of ["dark", "light"] as const)
    it(`fits a phone, ${theme}`, async () => {
      const { page, context, wrong } = await eyes.at(served, "#hosts", {
        width: 390,
        height: 844,
        theme,
      });
      await opened(page);
      await fits(page);
      await contained(page);
      await accessible(page);
      // The name and what differs are within the window without scrolling.
      const why = page.locator("tbody tr", { hasText: "client4" }).locator("th .warm").first();
      const box = (await why.boundingBox())!;
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(390);
      // A number is beside it.
      const number = (await page.locator("tbody td").first().boundingBox())!;
      expect(number.x + number.width).toBeLessThanOrEqual(390);
      await picture(page, `hosts-390-${theme}`);
      expect(wrong).toEqual([]);
      await context.close();
    });
});
