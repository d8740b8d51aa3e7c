import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Eyes, lacks, picture, program, until } from "./stage";

/** A lookup with 1,200 of 4,000 samples, from two callers, one of which calls itself. */
const folded = `nginx;main;writev;tcp_sendmsg;fib_lookup;fib_lookup 300
nginx;main;writev;tcp_sendmsg;dev_queue_xmit 1700
ksoftirqd;net_rx_action;fib_lookup 900
nginx;main;</script><script>alert(1)</script>;]]>x 40
idle 1060
`;

describe.skipIf(lacks !== "")(`an SVG${lacks ? ` (${lacks})` : ""}`, () => {
  let eyes: Eyes;
  let dir = "";
  beforeAll(async () => {
    eyes = await Eyes.open();
    dir = mkdtempSync(join(tmpdir(), "culprit-svg-"));
  }, 60_000);
  afterAll(async () => {
    await eyes?.close();
    rmSync(dir, { recursive: true, force: true });
  }, 30_000);

  /** Draws a profile, and opens the picture as a file; the second result is what went wrong. */
  async function made(...inputs: string[]): Promise<[Page, string[]]> {
    const out = join(dir, "x.svg");
    const run = spawnSync(program, ["flame", "-o", out, ...inputs], { encoding: "utf8" });
    if (run.status !== 0) throw new Error(run.stderr);
    const page = await eyes.browser.newPage();
    const wrong: string[] = [];
    page.on("pageerror", (e) => wrong.push(`error: ${e.stack}`));
    page.on("request", (r) => {
      if (!r.url().startsWith("file:")) wrong.push(`asks for ${r.url()}`);
    });
    page.on("dialog", (d) => wrong.push(`a dialog: ${d.message()}`));
    await page.goto(`file://${out}`);
    return [page, wrong];
  }

  const said = (page: Page): Promise<string[]> =>
    page.evaluate(() =>
      [".field", ".result"].map((s) => document.querySelector(s)?.textContent ?? "missing"),
    );
  /** Waits for what the search says. */
  const says = (page: Page, want: string): Promise<unknown> =>
    until(want, async () => (await said(page))[1] === want);

  it("is searched by text and by pattern, with the next match", { timeout: 60_000 }, async () => {
    writeFileSync(join(dir, "a.folded"), folded);
    const [page, wrong] = await made(join(dir, "a.folded"));
    await until("the search is offered", async () => (await said(page))[0] === "search (/)");
    await page.keyboard.press("/");
    await page.keyboard.type("FIB_lookup");
    // The inner call of the recursion is part of the outer one.
    await says(page, "30.00 % matched, 2 calls");
    expect(await page.locator("g.found").count()).toBe(2);
    await page.keyboard.press("Enter");
    await says(page, "30.00 % matched, 1 of 2");
    const first = await page.locator("g.here rect").getAttribute("x");
    await page.keyboard.press("Enter");
    await says(page, "30.00 % matched, 2 of 2");
    expect(Number(await page.locator("g.here rect").getAttribute("x"))).not.toBe(Number(first));
    await page.keyboard.press("Shift+Enter");
    await says(page, "30.00 % matched, 1 of 2");
    await picture(page, "svg-search");
    await page.keyboard.press("Escape");
    expect(await page.locator("g.found").count()).toBe(0);
    await page.keyboard.press("Control+f");
    await page.keyboard.type("/^(dev|tcp)_");
    await says(page, "50.00 % matched, 1 call");
    await page.keyboard.type("(");
    await says(page, "no valid pattern");
    await page.keyboard.press("Escape");
    await page.locator(".field").click();
    await page.keyboard.type("]]>x");
    await says(page, "1.00 % matched, 1 call");
    await page.keyboard.type("no");
    await says(page, "no match");
    expect(wrong).toEqual([]);
    await page.close();
  });

  it("of a comparison has the shares of after", { timeout: 60_000 }, async () => {
    writeFileSync(join(dir, "a.folded"), folded);
    writeFileSync(join(dir, "b.folded"), "main;work 300\nmain;wait 100\n");
    const [page, wrong] = await made("--diff", join(dir, "a.folded"), join(dir, "b.folded"));
    await page.keyboard.press("/");
    await page.keyboard.type("work");
    await says(page, "75.00 % matched, 1 call");
    expect(wrong).toEqual([]);
    await page.close();
  });
});
