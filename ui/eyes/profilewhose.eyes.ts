import { spawn } from "node:child_process";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const missing = lacks !== "" ? lacks : process.getuid?.() !== 0 ? "needs: root" : "";

/** Types into the field that chooses whose time is shown, and takes an entry of its list. */
async function choose(page: Page, text: string, entry: RegExp): Promise<void> {
  const field = page.getByRole("combobox", { name: "whose time" });
  await field.click();
  await field.pressSequentially(text);
  const option = page.getByRole("option", { name: entry }).first();
  await option.waitFor({ timeout: 30_000 });
  for (let n = 0; n < 70; n++) {
    if ((await option.getAttribute("aria-selected")) === "true") break;
    await field.press("ArrowDown");
  }
  await field.press("Enter");
}

describe.skipIf(missing !== "")(`profile of some${missing ? ` (${missing})` : ""}`, () => {
  let served: Served;
  let eyes: Eyes;
  // One process that burns CPU time, and one that sleeps again and again.
  const burner =
    missing === ""
      ? spawn("bash", ["-c", "while :; do :; done"], { stdio: "ignore", detached: true })
      : undefined;
  const sleeper =
    missing === ""
      ? spawn("sh", ["-c", "while :; do sleep 0.05; done"], { stdio: "ignore", detached: true })
      : undefined;
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open();
  }, 120_000);
  afterAll(async () => {
    for (const p of [burner, sleeper]) if (p?.pid) process.kill(-p.pid, "SIGKILL");
    await eyes?.close();
    await served?.end();
  }, 30_000);

  it("takes the off-CPU time of one process, chosen by the keyboard", {
    timeout: 120_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile", { height: 1000 });
    await choose(page, String(sleeper!.pid), new RegExp(`^(sh|process) ${sleeper!.pid}`));
    expect(page.url()).toContain(`whose=pid:${sleeper!.pid}`);
    await page.getByRole("button", { name: "off-CPU" }).click();
    expect(await page.getByLabel("samples per second and CPU").count()).toBe(0);
    await page.getByLabel("for how long").selectOption("3 s");
    await page.getByRole("button", { name: "take a profile" }).click();
    await until(
      "waits",
      async () => (await page.locator("[data-chosen] .twin tbody tr").count()) > 3,
      60_000,
    );
    const table = await page.locator(".twin").innerText();
    expect(table).toContain("[sleeping]");
    expect(table).toMatch(/do_wait|nanosleep/);
    expect(table).toMatch(/\d m?s\b/);
    expect(table).not.toContain("bash");
    await page
      .locator(".graph canvas")
      .first()
      .hover({ position: { x: 300, y: 27 } });
    await page.waitForSelector(".frame .tip");
    await fits(page);
    await accessible(page);
    await picture(page, "profile-offcpu");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("narrows recorded samples to a name, and compares them with the whole machine", {
    timeout: 120_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile", { height: 1000 });
    const button = page.getByRole("button", { name: "busiest second" });
    await until(
      "seconds",
      async () => (await button.count()) > 0 && (await button.isEnabled()),
      60_000,
    );
    await page.getByRole("button", { name: "all of it" }).click();
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    await choose(page, "bash", /^bash/);
    await until("its samples", async () => /p=\d+\.\.\d+,p(rocess|id):/.test(page.url()));
    await until("bash alone", async () =>
      /^bash\n/.test(
        (await page.locator(".twin tbody th[scope=row]").allInnerTexts()).sort().join("\n"),
      ),
    ).catch(() => {});
    const roots = await page.locator(".twin").innerText();
    expect(roots).toContain("bash");
    expect(roots).not.toContain("swapper");
    await page.getByRole("button", { name: "compare with" }).click();
    await accessible(page);
    await picture(page, "profile-compare-with");
    await page.getByRole("button", { name: "the whole machine at the same time" }).click();
    await page.waitForSelector(".norm");
    expect(page.url()).toMatch(/a=\d+\.\.\d+(&|$)/);
    await fits(page);
    await picture(page, "profile-compare-machine");
    // Another time, by the map.
    await page.getByLabel("against").selectOption("");
    await page.getByRole("button", { name: "compare with" }).click();
    await page.getByRole("button", { name: "another time: select it on the map" }).click();
    await page.getByText("Select the time to compare with.").waitFor();
    await button.click();
    await page.waitForSelector(".norm");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("goes from match to match, and shows each", { timeout: 60_000 }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile", { width: 390 });
    const lines = Array.from({ length: 60 }, (_, i) => `main;f${i};${i % 20 ? "x" : "needle"} 10`);
    const data = await page.evaluateHandle(
      (t) => {
        const d = new DataTransfer();
        d.items.add(new File([t], "needles.folded"));
        return d;
      },
      `${lines.join("\n")}\n`,
    );
    await page.dispatchEvent("main", "drop", { dataTransfer: data });
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    const field = page.getByLabel("search functions");
    await field.fill("needle");
    await until("the share", async () =>
      (await page.locator(".tools").innerText()).includes("5.00 % matched, 3"),
    );
    const said = () => page.locator(".tools [role=status]").innerText();
    await field.press("Enter");
    await until("the first", async () => (await said()).endsWith("1 of 3"));
    const first = page.url();
    await field.press("Enter");
    await until("the second", async () => (await said()).endsWith("2 of 3"));
    await field.press("Enter");
    await field.press("Enter");
    await until("the first again", async () => (await said()).endsWith("1 of 3"));
    await page.getByRole("button", { name: "the match before" }).click();
    await until("the last", async () => (await said()).endsWith("3 of 3"));
    expect(await page.locator(".about").innerText()).toContain("needle");
    expect(page.url()).not.toBe(first); // it is brought in sight
    await fits(page);
    await accessible(page);
    await picture(page, "profile-matches");
    expect(wrong).toEqual([]);
    await context.close();
  });
});
