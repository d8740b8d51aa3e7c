import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

describe.skipIf(lacks !== "")(`the catalogue${lacks === "" ? "" : ` (${lacks})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
  });
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
  });

  it("opens a graph from the tree, by the keyboard alone, and records it", async () => {
    const { page, context, wrong } = await eyes.at(served, "#analytics?last=1m&q=cpu.time+by+mode");
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    expect(await page.locator('[data-graph="0"] h2').textContent()).toBe("CPUs: time by mode");
    await page.keyboard.press("a");
    const dialog = page.getByRole("dialog", { name: "add a graph" });
    await dialog.waitFor();
    await until("the groups", async () => (await dialog.locator("section").count()) > 10);
    await accessible(page);
    await picture(page, "catalogue-groups");
    // What is not recorded by default; found by words of its help and of its name.
    await page.keyboard.type("tcp ports local");
    await until("one group", async () => (await dialog.locator("section").count()) === 1);
    await until(
      "its price",
      async () => (await dialog.locator(".price").first().textContent()) !== "",
    );
    await accessible(page);
    await picture(page, "catalogue-found");
    await page.keyboard.press("Enter");
    await page.locator('[data-graph="1"][data-state="shown"]').waitFor({ timeout: 60_000 });
    expect(await page.locator('[data-graph="1"] .sentence').textContent()).toMatch(/^tcp\.ports\./);
    await fits(page);
    expect(wrong.filter((w) => !w.includes("404"))).toEqual([]);
    await context.close();
  });

  it("fits on a phone", async () => {
    const { page, context, wrong } = await eyes.at(served, "#analytics?last=1m&q=cpu.time+by+cpu", {
      width: 390,
      height: 844,
      theme: "light",
    });
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    await page.getByRole("button", { name: "+ graph" }).click();
    await page
      .getByRole("button", { name: /Network / })
      .first()
      .click();
    await fits(page);
    await accessible(page);
    await picture(page, "catalogue-phone");
    await page.keyboard.press("Escape");
    await page.locator('[data-graph="0"] .more').first().click();
    await page.locator(".question").first().waitFor();
    await fits(page);
    await accessible(page);
    await picture(page, "questions-phone");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("finds processes, datasets and times by Ctrl-K", async () => {
    const { page, context, wrong } = await eyes.at(served, "#now");
    const find = async (text: string, what: RegExp): Promise<void> => {
      await page.keyboard.press("Control+k");
      await page.getByRole("dialog").getByRole("combobox").fill(text);
      await until(`${text} is found`, async () => {
        const first = await page.getByRole("dialog").getByRole("option").first().textContent();
        return first !== null && what.test(first);
      });
    };
    await find("chrom", /^chrom\S+ \d+process$/);
    await accessible(page);
    await picture(page, "palette-process");
    await page.keyboard.press("Enter");
    await page.locator('[data-graph="0"]').waitFor();
    expect(page.url()).toContain("process.cpu+by+mode");
    await find("yesterday 14:00", /14:00:00.*ten minutes/);
    await page.keyboard.press("Enter");
    await until("that time", async () => /from=.*to=/.test(page.url()));
    await find("disk.bytes by device", /disk\.bytes/);
    expect(wrong.filter((w) => !w.includes("404"))).toEqual([]);
    await context.close();
  });
});
