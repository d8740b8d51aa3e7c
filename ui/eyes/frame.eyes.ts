import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { cpus } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, load, picture, Served, until } from "./stage";

interface Use {
  tables: { columns: { name: string }[]; rows: { cells: (number | string | null)[] }[] }[];
}

describe.skipIf(lacks !== "")(`the page${lacks === "" ? "" : ` (${lacks})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
  });
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
  });

  it("lets nobody in without the token, and keeps it out of the address", async () => {
    const page = await eyes.browser.newPage();
    for (const path of ["", "?token=wrong", "page.js", "api/health"]) {
      const answer = await page.goto(served.url + path);
      expect(answer?.status(), path).toBe(401);
    }
    await page.goto(`${served.url}?token=${served.token}#datasets?find=cpu`);
    await page.waitForSelector("main h1");
    expect(page.url()).toBe(`${served.url}#datasets?find=cpu`);
    // A cookie that is no longer good: a new server with another token.
    await page.context().clearCookies();
    await until(
      "the page asks for a token",
      async () => (await page.getByRole("heading", { name: "Not authorized" }).count()) === 1,
      15_000,
    );
    await picture(page, "refused");
    await page.context().close();
  });

  // The worksheet has tests of its own.
  for (const view of ["now", "datasets", "findings"]) {
    it(`shows ${view} to everybody, at any width, asking nobody but its server`, async () => {
      const look = async (width: number, theme: "dark" | "light"): Promise<void> => {
        const { page, context, wrong } = await eyes.at(served, `#${view}`, { width, theme });
        await page.waitForFunction(
          (v) =>
            document.querySelectorAll(v === "findings" ? "main p" : "main table, main input")
              .length > 0,
          view,
        );
        await page.waitForTimeout(1500);
        await fits(page);
        // Once in the dark and once in the light: the width changes no name and no contrast.
        if (width === 1280) await accessible(page);
        await picture(page, `${view}-${width}-${theme}`);
        expect(wrong).toEqual([]);
        await context.close();
      };
      // Together, for each waits for ticks.
      await Promise.all([
        look(1280, "dark"),
        look(1280, "light"),
        look(1920, "light"),
        look(800, "dark"),
      ]);
    });
  }

  it("does not say that nothing was wrong where nobody looked", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      "#findings?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z",
    );
    await page.locator("main", { hasText: "No diagnosis is recorded" }).waitFor();
    expect(await page.locator("main").innerText()).not.toContain("Nothing was wrong");
    expect(await page.locator("main .fine").count()).toBe(0);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("fits at any width", async () => {
    const { page, context, wrong } = await eyes.at(served, "#now");
    await page.locator("main table .spark canvas").first().waitFor();
    for (const width of [800, 881, 1101, 1121, 1280, 1440, 1701, 1920]) {
      await page.setViewportSize({ width, height: 700 });
      // A course does not lie on the number beside it.
      const beyond = await page.evaluate(() =>
        [...document.querySelectorAll("main td > .spark")].map(
          (s) => s.getBoundingClientRect().right - s.parentElement!.getBoundingClientRect().right,
        ),
      );
      expect(beyond.length).toBeGreaterThan(3);
      expect(Math.max(...beyond), `at ${width}`).toBeLessThanOrEqual(1);
      // A name can be cut, its size or speed never.
      const abouts = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>("main .name .about")].map((a) => {
          const cell = a.closest("th")!.getBoundingClientRect();
          const at = a.getBoundingClientRect();
          return {
            text: a.textContent,
            wide: at.width,
            over: Math.max(
              at.right - cell.right,
              at.bottom - cell.bottom,
              a.scrollWidth - a.clientWidth,
            ),
          };
        }),
      );
      expect(
        abouts.filter((a) => a.wide === 0 || a.over > 1),
        `sizes and speeds at ${width}`,
      ).toEqual([]);
    }
    // Nor is what can be done with a dataset beyond the edge.
    await page.goto(`${served.url}#datasets`);
    await page.locator("main tbody tr").first().waitFor();
    for (const width of [800, 1000, 1280]) {
      await page.setViewportSize({ width, height: 700 });
      const over = await page.evaluate(
        () =>
          document.querySelector("main .scroll")!.scrollWidth -
          document.querySelector("main .scroll")!.clientWidth,
      );
      expect(over, `datasets at ${width}`).toBeLessThanOrEqual(0);
    }
    // The header is one line where a screen is wide enough: it does not move what is below when
    // the time is paused.
    for (const time of ["", "?last=2m", "?from=2026-01-01T10:00:00Z&to=2026-01-01T11:00:00Z"]) {
      await page.goto(`${served.url}#now${time}`);
      await page.waitForFunction(
        (past) => (document.querySelector("header .past") !== null) === past,
        time.includes("from"),
      );
      for (const width of [1280, 1401, 1701, 1901]) {
        await page.setViewportSize({ width, height: 700 });
        expect(
          await page.evaluate(() => document.querySelector("header")!.offsetHeight),
          `${time} at ${width}`,
        ).toBeLessThan(50);
      }
    }
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("shows the numbers that the tools print, and names the load", async () => {
    const rest = load(cpus().length * 2);
    try {
      const { page, context, wrong } = await eyes.at(served, "#now?last=1m");
      const found = page.locator("article", {
        has: page.locator("h2", { hasText: /CPUs? (is|are) busy/ }),
      });
      await until("a finding", async () => (await found.count()) > 0, 50_000);
      await found.locator("summary").first().click();
      expect(await found.locator("ol li").count()).toBeGreaterThan(1);
      await picture(page, "now-busy");

      // The same second, of the page and of `culprit use`; one of this load, for something else may
      // have been found before it.
      await until("the CPUs are busy", async () => {
        const { tables } = await served.get<Use>("tool/use?from=-2s&to=now&step=1000");
        const t = tables.at(-1);
        return (
          t && (t.rows[0]!.cells[t.columns.findIndex((c) => c.name === "cpu_util")] as number) > 0.8
        ); // what a hypervisor takes is not busy
      });
      await page.getByRole("button", { name: "pause" }).click();
      const [from, to] = await until("the page is paused", async () => {
        const q = new URLSearchParams(page.url().split("?")[1]);
        return q.has("to") && [Date.parse(q.get("from")!), Date.parse(q.get("to")!)];
      });
      await page.waitForTimeout(1500);
      const { tables } = await served.get<Use>(`tool/use?from=${from}&to=${to}&step=1000`);
      const t = tables.at(-1)!;
      const tool = (name: string) => t.rows[0]!.cells[t.columns.findIndex((c) => c.name === name)];
      const shown = async (row: string, nth: number) => {
        const title = await page
          .locator("tr", { hasText: row })
          .first()
          .locator("td .value")
          .nth(nth)
          .getAttribute("title");
        return Number(/: ([\d.\u202f]+)/.exec(title ?? "")?.[1]?.replaceAll("\u202f", ""));
      };
      expect(await shown("CPU", 0)).toBeCloseTo(tool("cpu_util") as number, 5);
      expect(await shown("CPU", 1)).toBeCloseTo(tool("cpu_saturation") as number, 5);
      expect(await shown("Memory", 0)).toBeCloseTo(tool("memory_util") as number, 5);
      expect(await shown("Disk", 0)).toBeLessThanOrEqual((tool("disk_util") as number) + 1e-5);
      expect(await shown("CPU", 0)).toBeGreaterThan(0.5);
      expect(wrong).toEqual([]);
      await context.close();
    } finally {
      rest();
    }
  });

  it("follows keys, and its address contains the whole state", async () => {
    const { page, context, wrong } = await eyes.at(served, "#now");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "help" }).waitFor();
    await accessible(page);
    await picture(page, "help");
    // The very next key is the page's, whatever the browser has yet to do.
    await page.evaluate(() => {
      for (const key of ["Escape", "3"]) {
        document.activeElement!.dispatchEvent(
          new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
        );
      }
    });
    expect(await page.getByRole("dialog").count()).toBe(0);
    await until("the third view", async () => page.url().endsWith("#datasets"));
    await page.keyboard.press("/");
    await page.keyboard.type("cpu ?1");
    await until(
      "the address has what is sought",
      async () =>
        page.url().endsWith("#datasets?find=cpu+?1") ||
        page.url().endsWith("#datasets?find=cpu+%3F1"),
    );
    expect(await page.getByRole("dialog").count(), "keys in a field are the field's").toBe(0);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("memory.size");
    await accessible(page);
    await picture(page, "palette");
    await page.keyboard.press("Enter");
    await until("a graph", async () => page.url().includes("#analytics?q=memory.size"));
    await page.goBack();
    await until("back", async () => page.url().includes("#datasets"));
    await page.goBack();
    await until("back to the first", async () => page.url().endsWith("#now"));
    await page.keyboard.press(" ");
    await until("it is paused", async () => /from=.*&to=/.test(page.url()));
    await page.keyboard.press("n");
    await until("it goes on", async () => page.url().endsWith("#now"));
    await page.keyboard.press("t");
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("light");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("says what datasets have lost, and why, to who has no mouse too", async () => {
    const { page, context, wrong } = await eyes.at(served, "");
    const reason =
      "samples that were due while a CPU was idle and did not come: a reason of some length, which is wrapped";
    await page.route("**/api/datasets*", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { datasets: { sentence: string; loss: unknown }[] };
      for (const d of body.datasets)
        d.loss = d.sentence.startsWith("cpu.time by") ? [{ reason, events: 1234 }] : null;
      await route.fulfill({ response: answer, json: body });
    });
    await page.setViewportSize({ width: 800, height: 900 });
    await page.goto(`${served.url}#datasets?find=cpu.time`);
    const lost = page.getByRole("region", { name: "Losses and reasons" });
    await lost.waitFor();
    expect(await lost.innerText()).toMatch(
      /1,?234 lost of cpu\.time by .*: samples that were due while/,
    );
    await fits(page);
    await accessible(page);
    await picture(page, "datasets-lost");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("records a sentence, says where one is wrong, and asks before it forgets", async () => {
    const { page, context, wrong } = await eyes.at(served, "#datasets");
    const field = page.getByRole("combobox", { name: "query to record" });
    await field.fill("cpu.time by cpuu");
    await field.press("Enter");
    await until(
      "the place that is wrong",
      async () => (await page.locator("mark").innerText()) === "cpuu",
      10_000,
    );
    await accessible(page);
    await picture(page, "datasets-wrong");
    expect(wrong.filter((w) => !/ 400 |^400 /.test(w) && !w.includes("status of 400"))).toEqual([]);
    wrong.length = 0;

    await field.fill("");
    await field.pressSequentially("net.proto");
    await page.getByRole("option", { name: /net\.protocol\.events/ }).waitFor();
    await field.fill("sched.runwait by cpu");
    await field.press("Enter");
    const row = page.locator("tr", { hasText: "sched.runwait by cpu" });
    await row.waitFor();
    await row.hover();
    await row.getByRole("button", { name: "suspend" }).click();
    await row.getByRole("img", { name: "suspended" }).waitFor();
    await row.getByRole("button", { name: "resume" }).click();
    await row.getByRole("img", { name: "recording" }).waitFor();
    await row.hover();
    await row.getByRole("button", { name: "destroy" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    await accessible(page);
    await picture(page, "datasets-destroy");
    await page.keyboard.press("Enter");
    expect(await row.count(), "Enter leaves it").toBe(1);
    await row.hover();
    await row.getByRole("button", { name: "destroy" }).click();
    await dialog.getByRole("button", { name: "destroy it" }).click();
    await until("the row is gone", async () => (await row.count()) === 0);
    await page.locator("summary", { hasText: "Changes of datasets" }).click();
    const audit = page.getByRole("table", { name: "Changes of datasets" });
    await until("the audit", async () => (await audit.innerText()).match(/page\s+destroyed/));
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("works below any path", async () => {
    const proxy = createServer((q, a) => {
      const inner = request(
        {
          host: "127.0.0.1",
          port: served.address.split(":")[1],
          path: q.url?.replace(/^\/deep\/host1/, ""),
          method: q.method,
          headers: q.headers,
        },
        (r) => {
          a.writeHead(r.statusCode ?? 500, r.headers);
          r.pipe(a);
        },
      );
      q.pipe(inner);
      a.on("close", () => inner.destroy());
      inner.on("error", () => a.destroy());
    });
    await new Promise<void>((r) => proxy.listen(0, "127.0.0.1", () => r()));
    const base = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/deep/host1/`;
    const { page, context, wrong } = await eyes.at(served, "#datasets", { base });
    await page.locator("tbody tr").first().waitFor();
    expect(wrong).toEqual([]);
    await context.close();
    proxy.closeAllConnections();
    proxy.close();
  });

  it("says that it is not connected, since when, and takes up again", async () => {
    const { page, context } = await eyes.at(served, "#now?last=1m");
    await page.locator("tbody tr").first().waitFor();
    await served.down();
    const banner = page.getByRole("alert");
    await until(
      "the banner",
      async () =>
        (await banner.count()) > 0 && (await banner.innerText()).includes("not connected since"),
      15_000,
    );
    await until(
      "for how long",
      async () => / since \d\d:\d\d:\d\d \(\d+ s\): /.test(await banner.innerText()),
      10_000,
    );
    expect(await page.locator(".light").innerText(), "the light beside the clock is out").toBe("○");
    await picture(page, "not-connected");
    await accessible(page);
    await served.up();
    await until("it is connected again", async () => (await banner.count()) === 0, 25_000);
    await context.close();
  });
});
