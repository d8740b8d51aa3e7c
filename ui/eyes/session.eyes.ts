// Sessions: who is logged in, what a tab without the secret may do, and what a stolen cookie is
// worth.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const query = "sched.runwait by cpu";

/** Records a query in the view of datasets, or tries to. */
async function record(page: Page): Promise<void> {
  const field = page.getByRole("combobox", { name: "query to record" });
  await field.fill(query);
  await field.press("Enter");
}

/** The secrets that a tab keeps. */
async function kept(page: Page): Promise<string[]> {
  return page.evaluate(() => Object.values({ ...sessionStorage }).map(String));
}

describe.skipIf(lacks !== "")(`sessions${lacks === "" ? "" : ` (${lacks})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
  });
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
  });

  /** Opens a tab without a token in its address. */
  async function tab(context: BrowserContext): Promise<Page> {
    const page = await context.newPage();
    await page.goto(`${served.url}#datasets`);
    await page.waitForSelector("main h1");
    return page;
  }

  /** Whether the query is recorded; its dataset is destroyed again. */
  async function recorded(): Promise<boolean> {
    const { datasets } = await served.get<{ datasets: { id: number; sentence: string }[] }>(
      "datasets",
    );
    const found = datasets.find((d) => d.sentence === query);
    if (found === undefined) return false;
    const answer = await fetch(`${served.url}api/datasets/${found.id}/destroy`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${served.token}`,
        "Content-Type": "application/json",
        "X-Culprit": "1",
      },
      body: "{}",
    });
    return answer.ok;
  }

  it("keep the secret in the tab, and out of the address and the cookie", async () => {
    const { page, context, wrong } = await eyes.at(served, "#datasets");
    await until("the tab has the secret", async () => (await kept(page)).length === 1);
    expect(page.url()).toBe(`${served.url}#datasets`);
    const [secret] = await kept(page);
    const cookies = await context.cookies();
    expect(cookies.map((c) => c.httpOnly)).toEqual([true]);
    expect(cookies[0]!.value).not.toContain(secret!);
    await page.reload();
    await page.waitForSelector("main h1");
    expect(await kept(page)).toEqual([secret]);
    await record(page);
    await until("a page after a reload records", recorded);
    expect(wrong).toEqual([]);
  });

  it("lend the secret to a new tab, and ask for the token where no tab has it", async () => {
    const { page: first, context } = await eyes.at(served, "#datasets");
    await until("the first tab has the secret", async () => (await kept(first)).length === 1);
    const second = await tab(context);
    await record(second);
    await until("a tab beside another one records", recorded);
    await first.close();
    await second.close();

    const alone = await tab(context);
    expect(await kept(alone)).toEqual([]);
    await record(alone);
    const dialog = alone.getByRole("dialog", { name: "log in to change something" });
    await dialog.waitFor();
    await accessible(alone);
    await picture(alone, "log-in");
    expect(await recorded()).toBe(false);
    await dialog.getByLabel("Token").fill("wrong");
    await dialog.getByRole("button", { name: "log in" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Token").fill(served.token);
    await dialog.getByRole("button", { name: "log in" }).click();
    await until("the tab that has logged in records", recorded);
    expect(await dialog.count()).toBe(0);
  });

  it("are listed and ended", async () => {
    const other = await eyes.at(served, "#now");
    const { page } = await eyes.at(served, "#now");
    await until("the tab has the secret", async () => (await kept(page)).length === 1);
    await page.getByRole("button", { name: "sessions" }).click();
    const table = page.getByRole("table", { name: "Sessions" });
    await table.waitFor();
    await accessible(page);
    await fits(page);
    await picture(page, "sessions");
    expect(await table.locator("tr", { hasText: "(this one)" }).count()).toBe(1);
    const end = table.getByRole("button", { name: /^end the session/ });
    while ((await end.count()) > 0) {
      const before = await end.count();
      await end.first().click();
      await until("it is gone", async () => (await end.count()) < before);
    }
    await until(
      "the other browser is logged out",
      async () => (await other.page.getByRole("heading", { name: "Not authorized" }).count()) === 1,
      15_000,
    );
    // It logs in where it is.
    await other.page.getByLabel("Token").fill(served.token);
    await other.page.getByRole("button", { name: "log in" }).click();
    await other.page.waitForSelector("main h1");
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("This page needs the token of the server").waitFor();
  });

  it("are not worth a change to a server on another port that collects the cookie", async () => {
    const { page, context } = await eyes.at(served, "#datasets");
    await until("the tab has the secret", async () => (await kept(page)).length === 1);
    let stolen = "";
    const thief = createServer((q, a) => {
      stolen = q.headers.cookie ?? stolen;
      a.setHeader("Content-Type", "text/html");
      a.end(`<!doctype html><title>thief</title><script>
        const heard = new BroadcastChannel("culprit /");
        heard.onmessage = (e) => { document.title = "heard " + JSON.stringify(e.data); };
        heard.postMessage("ask");
      </script>`);
    });
    await new Promise<void>((done) => thief.listen(0, "127.0.0.1", done));
    try {
      const trap = await context.newPage();
      await trap.goto(`http://127.0.0.1:${(thief.address() as AddressInfo).port}/`);
      await until("the browser sends the cookie to the other port", async () => stolen !== "");
      await trap.waitForTimeout(500);
      expect(await trap.title()).toBe("thief");
      expect(await trap.evaluate(() => sessionStorage.length)).toBe(0);
      const viewed = await fetch(`${served.url}api/health`, { headers: { Cookie: stolen } });
      expect(viewed.status).toBe(200);
      for (const [path, body] of [
        ["scripts", { text: "BEGIN { exit(0); }" }],
        ["profiles/take", { seconds: 1 }],
        ["datasets", { sentence: query }],
        ["sessions/all/revoke", {}],
      ] as const) {
        const answer = await fetch(`${served.url}api/${path}`, {
          method: "POST",
          headers: {
            Cookie: stolen,
            Origin: served.url.slice(0, -1),
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/json",
            "X-Culprit": "1",
            "X-Culprit-Secret": stolen.split("=")[1]!,
          },
          body: JSON.stringify(body),
        });
        expect(answer.status, path).toBe(403);
      }
    } finally {
      thief.close();
    }
  });
});
