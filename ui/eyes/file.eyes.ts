import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, program, until } from "./stage";

const folded = `nginx;main;ngx_process_events;ngx_http_handler;writev_[k];tcp_sendmsg_[k];fib_lookup_[k] 300
nginx;main;ngx_process_events;ngx_http_handler;writev_[k];tcp_sendmsg_[k];dev_queue_xmit_[k] 460
ksoftirqd/1;net_rx_action_[k];tcp_v4_rcv_[k];fib_lookup_[k] 900
nginx;main;</script><script>alert(1)</script>;<img src=x onerror=alert(2)> 40
`;

/** Two calls, the second one after a gap. */
const trace = JSON.stringify([
  { ph: "X", name: "frame", pid: 1, tid: 2, ts: 0, dur: 40_000 },
  { ph: "X", name: "layout", pid: 1, tid: 2, ts: 10_000, dur: 10_000 },
  { ph: "X", name: "frame", pid: 1, tid: 2, ts: 70_000, dur: 30_000 },
]);

describe.skipIf(lacks !== "")(`the page in one file${lacks ? ` (${lacks})` : ""}`, () => {
  let eyes: Eyes;
  let dir = "";
  beforeAll(async () => {
    eyes = await Eyes.open();
    dir = mkdtempSync(join(tmpdir(), "culprit-file-"));
  }, 60_000);
  afterAll(async () => {
    await eyes?.close();
    rmSync(dir, { recursive: true, force: true });
  }, 30_000);

  /** Makes a page of a profile, and opens it as a file; the second result is what went wrong. */
  async function made(
    name: string,
    text: string,
    how: { width?: number; theme?: "dark" | "light"; flags?: string[]; after?: string } = {},
  ): Promise<[Page, string[]]> {
    const inputs = [join(dir, name)];
    writeFileSync(inputs[0]!, text);
    if (how.after !== undefined) {
      inputs.push(join(dir, `after-${name}`));
      writeFileSync(inputs[1]!, how.after);
    }
    const out = join(dir, `${name}.html`);
    const run = spawnSync(program, ["flame", "-o", out, ...(how.flags ?? []), ...inputs], {
      encoding: "utf8",
    });
    if (run.status !== 0) throw new Error(run.stderr);
    const context = await eyes.browser.newContext({
      viewport: { width: how.width ?? 1280, height: 800 },
      colorScheme: how.theme ?? "dark",
    });
    const page = await context.newPage();
    const wrong: string[] = [];
    page.on("console", (m) => {
      if (m.type() === "error" || m.type() === "warning") wrong.push(`console: ${m.text()}`);
    });
    page.on("pageerror", (e) => wrong.push(`error: ${e.stack}`));
    page.on("request", (r) => {
      if (!r.url().startsWith("file:")) wrong.push(`asks somebody: ${r.url()}`);
    });
    await page.goto(`file://${out}`);
    await page.waitForSelector(".twin tbody tr");
    return [page, wrong];
  }

  it("has what the Profile view has: table, search with the next match, callers, modules", {
    timeout: 90_000,
  }, async () => {
    for (const how of [
      { theme: "dark", width: 1280 },
      { theme: "light", width: 390 },
    ] as const) {
      const [page, wrong] = await made("nginx.folded", folded, how);
      const first = page.locator(".twin tbody tr").first();
      expect((await first.innerText()).replaceAll("\u202f", " ")).toMatch(
        /1200\s+70\.59 %\s+1200\s+70\.59 %\s+fib_lookup_\[k\]/,
      );
      expect(await page.locator(".twin").innerText()).toContain("</script><script>alert(1)");
      await page.keyboard.press("/");
      await page.keyboard.type("fib_lookup");
      await page.keyboard.press("Enter");
      await until("the first match", async () =>
        (await page.locator(".tools").innerText()).includes("70.59 % matched, 1 of 2"),
      );
      await page.keyboard.press("Enter");
      await until("the next match", async () =>
        (await page.locator(".tools").innerText()).includes("2 of 2"),
      );
      await page.waitForTimeout(300);
      await picture(page, `file-${how.width}`);
      await fits(page);
      await accessible(page);
      await page.getByRole("button", { name: "fib_lookup_[k]", exact: true }).click();
      await page.waitForSelector("section[aria-label^='callers and callees']");
      await page.getByRole("button", { name: "group by module" }).click();
      await page.getByRole("button", { name: "callers", exact: true }).click();
      await until("all in the address", async () => /modules=1/.test(page.url()));
      await page.reload();
      await page.waitForSelector("section[aria-label^='callers and callees']");
      await page.keyboard.press("Escape");
      expect(wrong).toEqual([]);
      await page.context().close();
    }
  });

  it("has the flame chart of a profile with times", { timeout: 60_000 }, async () => {
    const [page, wrong] = await made("trace.json", trace);
    await page.keyboard.press("f");
    await until("the axis", async () => (await page.locator(".axis span").count()) > 1);
    expect((await page.locator(".trail").innerText()).replaceAll("\u202f", " ")).toContain(
      "all, 100 ms",
    );
    await page.keyboard.press("?");
    await until("the keys", async () => (await page.locator("dialog[open]").count()) === 1);
    await accessible(page);
    await page.keyboard.press("Escape");
    await picture(page, "file-chart");
    expect(wrong).toEqual([]);
    await page.context().close();
  });

  it("shows a comparison, and a large profile", { timeout: 90_000 }, async () => {
    const [diff, wrong] = await made("before.folded", "main;a 30\nmain;b 10\n", {
      flags: ["--diff"],
      after: "main;a 10\nmain;b 30\n",
    });
    const rows = (await diff.locator(".twin tbody").innerText()).replaceAll("\u202f", " ");
    expect(rows).toContain("+50.00 %");
    await accessible(diff);
    await picture(diff, "file-diff");
    await diff.context().close();
    const lines = Array.from({ length: 60_000 }, (_, i) => `main;f${i % 997};g${i};h 1`);
    const [large, more] = await made("large.folded", lines.join("\n"));
    await until("all calls", async () =>
      (await large.locator(".about").innerText()).replaceAll("\u202f", "").includes("120998 calls"),
    );
    expect([...wrong, ...more]).toEqual([]);
    await large.context().close();
  });
});
