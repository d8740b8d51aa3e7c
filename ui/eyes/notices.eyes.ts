import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

interface Dated {
  at_ms: number | null;
  report: { findings: { id: string; claim: string }[] | null };
}

describe.skipIf(lacks !== "")("notices", () => {
  let served: Served;
  let eyes: Eyes;

  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    await until(
      "a diagnosis",
      async () => (await served.get<Dated>("diagnosis")).at_ms !== null,
      120_000,
    );
  }, 240_000);

  afterAll(async () => {
    await served?.end();
    await eyes?.close();
  });

  it("are the number of findings in the title, of every view", async () => {
    const { page, wrong } = await eyes.at(served, "#datasets");
    await until(
      "the number of the newest diagnosis",
      async () => {
        const { report } = await served.get<Dated>("diagnosis");
        const n = report.findings?.length ?? 0;
        return (await page.title()).startsWith(n > 0 ? `(${n}) Datasets - ` : "Datasets - ");
      },
      60_000,
    );
    expect(wrong).toEqual([]);
  });

  it("are quiet by default, and report a new finding once where somebody wants it", async () => {
    const { page, context, wrong } = await eyes.at(served, "#findings");
    await context.grantPermissions(["notifications"], { origin: served.url });
    // A browser without a desktop shows none: what the page asks it to show is kept.
    await page.addInitScript(() => {
      const shown: string[] = [];
      const Kept = class {
        static permission = "granted";
        static requestPermission = async () => "granted";
        onclick = null;
        constructor(title: string, o: { body: string }) {
          shown.push(`${title}: ${o.body}`);
        }
        close() {}
      };
      Object.assign(window, { Notification: Kept, shown });
    });
    // The diagnosis of this machine, with findings that begin when the test says so.
    let extra: { id: string; claim: string }[] = [];
    await page.route("**/api/diagnosis", async (route) => {
      const answer = await route.fetch();
      const d = (await answer.json()) as Dated;
      if (d.at_ms === null) return route.fulfill({ response: answer });
      const report = { ...d.report, findings: extra };
      return route.fulfill({ response: answer, json: { ...d, at_ms: Date.now(), report } });
    });
    await page.reload();
    await page.waitForSelector("main h1");
    await page.getByRole("button", { name: "notices" }).click();
    const desktop = page.getByLabel("notifications of the desktop");
    const sound = page.getByLabel("a sound");
    expect(await desktop.isChecked()).toBe(false);
    expect(await sound.isChecked()).toBe(false);
    await desktop.check();
    await accessible(page);
    await picture(page, "notices");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "notices: on" }).waitFor();
    const shown = (): Promise<string[]> =>
      page.evaluate(() => (window as unknown as { shown: string[] }).shown);
    expect(await shown()).toEqual([]);
    extra = [{ id: "eyes-1", claim: "one disk is slow" }];
    await until("a notification", async () => (await shown()).length > 0, 60_000);
    await until("the title", async () => (await page.title()).startsWith("(1) "));
    extra = [...extra, { id: "eyes-2", claim: "one thread is busy" }];
    await until("the second", async () => (await shown()).length > 1, 60_000);
    expect((await shown()).map((t) => t.replace(/^culprit: \S+: /, ""))).toEqual([
      "one disk is slow",
      "one thread is busy",
    ]);
    expect(wrong).toEqual([]);
  });

  it("fit a telephone and a wall", async () => {
    for (const width of [390, 2560]) {
      const { page, wrong } = await eyes.at(served, "#findings", {
        width,
        height: 844,
        theme: "light",
      });
      await page.getByRole("button", { name: "notices" }).click();
      await page.getByLabel("a sound").waitFor();
      await fits(page);
      await accessible(page);
      await picture(page, `notices-${width}`);
      expect(wrong).toEqual([]);
    }
  });
});
