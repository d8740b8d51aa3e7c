import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, program, Served, until } from "./stage";

const queries = ["cpu.time by mode", "memory.size by kind", "net.device.bytes by device,direction"];
const q = queries.map((s) => `q=${encodeURIComponent(s)}`).join("&");

interface Worksheet {
  id: number;
  name: string;
  state: string;
  version: number;
}

const titles = (page: Page): Promise<string[]> =>
  page.locator("[data-graph] .sentence").allInnerTexts();

/** The time of an address. */
function whole(url: string): { from: number; to: number } {
  const params = new URLSearchParams(url.split("?").at(-1));
  return { from: Date.parse(params.get("from")!), to: Date.parse(params.get("to")!) };
}

describe.skipIf(lacks !== "")("worksheets", () => {
  let served: Served;
  let eyes: Eyes;

  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
  }, 240_000);

  afterAll(async () => {
    await served?.end();
    await eyes?.close();
  });

  const kept = async (): Promise<Worksheet[]> =>
    (await served.get<{ worksheets: Worksheet[] }>("worksheets")).worksheets;

  it("are saved under a name, and of two viewers the second loses nothing", async () => {
    await served.clear();
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`);
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    await page.keyboard.press("o");
    const dialog = page.getByRole("dialog", { name: "worksheets" });
    await dialog.getByText("None is saved yet").waitFor();
    await dialog.getByLabel("save these graphs as").fill("incident 7");
    await accessible(page);
    await page.keyboard.press("Enter");
    await until("it is in the address", async () => /sheet=\d+&version=1/.test(page.url()));
    expect((await kept()).map((w) => [w.name, w.version])).toEqual([["incident 7", 1]]);

    // Another viewer opens it, closes a graph and saves.
    const other = await eyes.at(served, "#analytics?last=30s");
    await other.page.getByRole("button", { name: "worksheets", exact: true }).click();
    await other.page.getByRole("button", { name: "incident 7", exact: true }).click();
    await until("its graphs", async () => (await titles(other.page)).length === 3);
    await other.page.getByRole("button", { name: "close this graph" }).first().click();
    await other.page.getByRole("button", { name: "save", exact: true }).click();
    await until("the second version", async () => (await kept())[0]!.version === 2);

    // The first changes its own, and saves too.
    await page.getByRole("button", { name: "move graph 1 down" }).click();
    await until("moved", async () => (await titles(page))[0]!.startsWith("memory.size"));
    const mine = await titles(page);
    const save = page.getByRole("button", { name: "save", exact: true });
    await save.click();
    await page.getByText("it has version 2 now").waitFor();
    expect(await titles(page)).toEqual(mine);
    expect((await kept())[0]!.version).toBe(2);
    await accessible(page);
    await picture(page, "worksheet-conflict");
    // Theirs is shown, and one step back mine again.
    await page.getByRole("button", { name: "show version 2" }).click();
    await until("theirs", async () => (await titles(page)).length === 2);
    await page.goBack();
    await until("mine", async () => JSON.stringify(await titles(page)) === JSON.stringify(mine));
    await page.getByRole("button", { name: "save", exact: true }).click();
    await page.getByRole("button", { name: "save mine under another name" }).click();
    await dialog.getByLabel("save these graphs as").fill("incident 7, mine");
    await page.keyboard.press("Enter");
    await until("both are kept", async () => (await kept()).length === 2);
    const { id } = (await kept()).find((w) => w.name === "incident 7, mine")!;
    const address = `sheet=${id}&version=1`;
    await until("it is in the address", async () => page.url().includes(address));
    await page.reload();
    await page.getByRole("button", { name: "incident 7, mine", exact: true }).waitFor();
    // Ctrl-K finds them by name, from any view.
    await other.page.keyboard.press("1");
    await other.page.keyboard.press("Control+k");
    await other.page.getByRole("dialog").getByRole("combobox").fill("incident mine");
    const entry = other.page.getByRole("option", { name: /incident 7, mine.*worksheet/ });
    await entry.waitFor();
    await other.page.keyboard.press("Enter");
    await until("opened", async () => other.page.url().includes(address));
    await until(
      "the graphs of it",
      async () => JSON.stringify(await titles(other.page)) === JSON.stringify(mine),
    );

    await page.keyboard.press("o");
    await dialog.getByRole("button", { name: "remove incident 7", exact: true }).click();
    await picture(page, "worksheets");
    await dialog.getByRole("button", { name: "remove incident 7", exact: true }).click();
    await until("it is gone", async () => (await kept()).length === 1);
    expect(wrong.filter((w) => !w.includes("409"))).toEqual([]);
    expect(other.wrong).toEqual([]);
  });

  it("have one filter for all graphs, which a statistic without the field reports", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`);
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    await page.keyboard.press("f");
    const filter = page.getByLabel("filter of all graphs");
    await filter.fill("device");
    await page.getByText("terms such as").waitFor();
    await filter.fill('device = "lo"');
    await page.keyboard.press("Enter");
    await until("the graph is narrowed", async () =>
      (await titles(page))[2]!.endsWith('where device = "lo"'),
    );
    const rows = page.locator('[data-graph="2"] .panel button.row');
    await until("only its rows", async () => {
      const names = await rows.allInnerTexts();
      return names.length > 0 && names.every((n) => n.includes("lo"));
    });
    expect(await page.getByText('not filtered by device = "lo"').count()).toBe(2);
    await accessible(page);
    await picture(page, "worksheet-filter");
    await page.getByRole("button", { name: "remove the filter" }).click();
    await until("all rows", async () => (await titles(page))[2] === queries[2]);
    expect(wrong).toEqual([]);
  });

  it("have a filter that completes fields and values", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`);
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    await page.keyboard.press("f");
    const options = page.getByRole("listbox", { name: "suggestions for the filter" });
    const option = (name: RegExp) => options.getByRole("option", { name });
    await option(/^mode/).waitFor();
    await page.keyboard.type("dev");
    await option(/^device.*of 1 of 3 graphs/).waitFor();
    await accessible(page);
    await page.keyboard.press("Tab");
    await option(/^!=/).waitFor();
    await page.keyboard.type("= ");
    await option(/^"lo"/).waitFor(); // asked for: it is in no text of the page's code
    await page.keyboard.type("lo");
    await picture(page, "worksheet-filter-values");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const field = page.getByLabel("filter of all graphs");
    expect(await field.inputValue()).toBe('device = "lo" ');
    await option(/^and/).waitFor();
    await page.keyboard.press("Enter");
    await until("the graph is narrowed", async () =>
      (await titles(page))[2]!.endsWith('where device = "lo"'),
    );
    // Tab leaves the field: it is no trap.
    await page.keyboard.press("Tab");
    expect(await field.evaluate((e) => e === document.activeElement)).toBe(false);
    expect(await options.isVisible()).toBe(false);
    expect(wrong).toEqual([]);
  });

  it("have graphs that are dragged to another place", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`, { height: 1000 });
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    const grip = async (n: number): Promise<[number, number]> => {
      const box = (await page.locator(`[data-graph="${n}"] .grip`).boundingBox())!;
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const drag = async (from: number, to: number): Promise<void> => {
      await page.mouse.move(...(await grip(from)));
      await page.mouse.down();
      const [x, y] = await grip(to);
      await page.mouse.move(x + 40, y + 5, { steps: 4 });
    };
    await drag(2, 0);
    await page.locator('[data-graph="0"].before').waitFor();
    await picture(page, "worksheet-dragged");
    await page.keyboard.press("Escape");
    await page.mouse.up();
    expect(await titles(page)).toEqual(queries);
    await drag(2, 0);
    await page.mouse.up();
    const order = [queries[2], queries[0], queries[1]];
    await until("it is the first", async () => (await titles(page)).join() === order.join());
    await page.goBack();
    await until("one step back", async () => (await titles(page)).join() === queries.join());
    expect(wrong).toEqual([]);
  });

  it("fold, unfold and move graphs by keyboard, and the header stays", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`, { height: 700 });
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    await page.locator('[data-graph="0"] .plot').focus();
    await page.keyboard.press("e");
    await page.locator('[data-graph="0"][data-state="folded"]').waitFor();
    expect(await page.locator('[data-graph="0"] canvas').count()).toBe(0);
    await accessible(page);
    await page.keyboard.press(">");
    await until("moved", async () => (await titles(page))[1] === queries[0]);
    await page.reload();
    await page.locator('[data-graph="1"][data-state="folded"]').waitFor();
    await page.getByRole("button", { name: "fold all" }).click();
    await until("all", async () => (await page.locator("[data-state=folded]").count()) === 3);
    await page.getByRole("button", { name: "unfold all" }).click();
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    await page.mouse.wheel(0, 2000);
    await until("it is scrolled", async () => (await page.evaluate(() => scrollY)) > 0);
    const [header, axis] = await page.evaluate(() =>
      ["header", ".axis"].map((x) => document.querySelector(x)!.getBoundingClientRect()),
    );
    expect(header!.top).toBe(0);
    expect(axis!.top).toBeGreaterThanOrEqual(header!.bottom - 1);
    await picture(page, "worksheet-scrolled");
    expect(wrong).toEqual([]);
  });

  it("have one to three columns, with the values at the pointer in all graphs", async () => {
    const { page, wrong } = await eyes.at(served, `#analytics?last=30s&${q}`, {
      width: 1600,
      height: 900,
    });
    await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
    const columns = page.getByRole("group", { name: "columns of graphs" });
    const left = (): Promise<number[]> =>
      page.evaluate(() =>
        [...document.querySelectorAll("[data-graph]")].map((g) => g.getBoundingClientRect().left),
      );
    for (const [n, want] of [
      ["2", 2],
      ["3", 3],
    ] as const) {
      await columns.getByRole("button", { name: n }).click();
      await until("the columns", async () => new Set(await left()).size === want);
      await until(
        "an axis each",
        async () => (await page.locator(".axis canvas").count()) === want,
      );
      await fits(page);
    }
    // The axis is above the plot: the crosshair's moment is at the pointer in each column.
    const [plot, axis] = await page.evaluate(() =>
      ['[data-graph="1"] .plot', ".axis canvas:nth-of-type(2)"].map((x) =>
        document.querySelector(x)!.getBoundingClientRect(),
      ),
    );
    expect(Math.abs(plot!.left - axis!.left)).toBeLessThan(1.5);
    expect(Math.abs(plot!.width - axis!.width)).toBeLessThan(1.5);
    const box = (await page.locator('[data-graph="1"] canvas.over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.7, box.y + 30);
    const heads = page.locator("[data-graph] .panel thead th.value");
    await until("one moment in all graphs", async () => {
      const all = await heads.allInnerTexts();
      return all.length === 3 && /^\d\d:\d\d:\d\d/.test(all[0]!) && new Set(all).size === 1;
    });
    await picture(page, "worksheet-columns");
    await accessible(page);
    await page.reload();
    await until("they are in the address", async () => new Set(await left()).size === 3);
    expect(wrong).toEqual([]);
  });

  /** The numbers of the table of a graph, by the end of their time and the name of their row. */
  const numbers = async (page: Page): Promise<Map<string, string>> =>
    new Map(
      await page.evaluate(() => {
        const t = document.querySelector('[data-graph="0"] .twin table');
        const names = [...(t?.querySelectorAll<HTMLElement>("thead th[data-row]") ?? [])].map(
          (h) => h.dataset.row ?? "",
        );
        return [...(t?.querySelectorAll<HTMLElement>("tbody tr") ?? [])].flatMap((tr) =>
          names.map((name, n): [string, string] => [
            `${tr.dataset.ms} ${name}`,
            (tr.querySelectorAll("td")[n]?.textContent ?? "").replaceAll("\u202f", ""),
          ]),
        );
      }),
    );

  /** Opens a graph with its table, of ten seconds that are over. */
  async function paused(o: string): Promise<Awaited<ReturnType<Eyes["at"]>>> {
    const to = Math.floor(Date.now() / 1000) * 1000 - 3000;
    const time = `from=${new Date(to - 10_000).toISOString()}&to=${new Date(to).toISOString()}`;
    const look = await eyes.at(served, `#analytics?${time}&q=cpu.time+by+mode&o=${o}`);
    await look.page.locator('[data-graph="0"] .twin tbody tr').first().waitFor();
    return look;
  }

  it("copy the command line that prints the same numbers", async () => {
    const dir = mkdtempSync(join(tmpdir(), "culprit-command-"));
    try {
      symlinkSync(program, join(dir, "culprit"));
      for (const [o, names] of [
        ["table", ["usr", "sys", "idle"]],
        ["table+sel%3Dsys", ["sys"]],
      ] as const) {
        const { page, context, wrong } = await paused(o);
        await context.grantPermissions(["clipboard-read", "clipboard-write"]);
        await page.getByTitle("copy as command line").click();
        const command = await until("the command line", async () => {
          const text = await page.evaluate(() => navigator.clipboard.readText());
          return text.startsWith("culprit stat ") && text;
        });
        const env = { PATH: `${dir}:${process.env.PATH}`, CULPRIT_DIR: served.dir };
        const output = execFileSync("sh", ["-c", `${command} --json`], { env, encoding: "utf8" });
        const shown = await numbers(page);
        let compared = 0;
        const rows = new Set<string>();
        for (const line of output.trim().split("\n")) {
          const table = JSON.parse(line) as {
            start: string;
            seconds: number;
            rows: { mode: string; value: number | null }[];
          };
          const end = Math.round((Date.parse(table.start) + table.seconds * 1000) / 1000) * 1000;
          for (const r of table.rows) {
            rows.add(r.mode);
            const text = shown.get(`${end} ${r.mode}`);
            expect(text, `${end} ${r.mode} of ${command}`).toBeDefined();
            if (r.value === null) expect(text).toBe("–");
            else {
              compared++;
              expect(Math.abs(Number(text) - r.value)).toBeLessThanOrEqual(r.value * 2e-7);
            }
          }
        }
        expect(compared).toBeGreaterThanOrEqual(8 * names.length);
        for (const name of names) expect([...rows]).toContain(name);
        if (names.length === 1) expect(rows.size).toBe(1);
        expect(wrong).toEqual([]);
      }
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("are one file that opens without a server, and refuses data of another version", async () => {
    const { page, context, wrong } = await paused("table");
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "snapshot" }).click();
    const path = await (await saving).path();
    const before = await numbers(page);
    expect(before.size).toBeGreaterThan(50);
    const dir = mkdtempSync(join(tmpdir(), "culprit-snapshot-"));
    try {
      const text = readFileSync(path, "utf8");
      expect(text).not.toContain(served.token);
      const file = join(dir, "snapshot.html");
      writeFileSync(file, text);
      const other = join(dir, "other.html");
      writeFileSync(other, text.replace('{"format":2,', '{"format":3,'));
      const opened = await context.newPage();
      const asked: string[] = [];
      opened.on("request", (r) => {
        if (!r.url().startsWith("file:") && !r.url().startsWith("data:")) asked.push(r.url());
      });
      opened.on("pageerror", (e) => asked.push(`error: ${e.stack}`));
      await opened.setViewportSize({ width: 900, height: 800 });
      await opened.goto(`file://${file}`);
      await opened.locator('[data-graph="0"][data-state="shown"]').waitFor();
      await opened.getByText("and no server").waitFor();
      await until("the same numbers", async () => {
        const now = await numbers(opened);
        return JSON.stringify([...now]) === JSON.stringify([...before]);
      });
      await accessible(opened);
      await picture(opened, "worksheet-snapshot");
      // The other views of its time, with the numbers that the server has.
      const views = opened.getByRole("navigation", { name: "views" });
      const view = (name: string) => views.getByRole("link", { name, exact: true });
      await view("Now").click();
      await opened.getByRole("table").first().waitFor();
      await opened.getByRole("heading", { name: "Processes by CPU" }).waitFor();
      expect(await opened.getByText("This is a snapshot").count()).toBe(0);
      await accessible(opened);
      await picture(opened, "snapshot-now");
      await view("Findings").click();
      await opened
        .getByText("recorded from")
        .or(opened.getByText("No diagnosis is"))
        .first()
        .waitFor();
      const { from, to } = whole(opened.url());
      const sampled = await fetch(
        `${served.url}api/ask?q=cpu.stack.busy+by+slot&from=${from}&to=${to}`,
        { headers: { Authorization: `Bearer ${served.token}` } },
      );
      await view("Profile").click();
      if (sampled.ok) await opened.locator(".twin tbody tr").first().waitFor();
      else await opened.getByText("Profile is not in this snapshot: ").waitFor();
      await picture(opened, "snapshot-profile");
      await view("Trace").click();
      await opened
        .getByText("Trace is not in this snapshot: it shows the running server")
        .waitFor();
      await accessible(opened);
      await opened.goto(`file://${other}`);
      await opened.getByText("with data of format 3; the page in it reads format 2").waitFor();
      expect(asked).toEqual([]);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
    // What was not recorded is kept as that.
    expect(wrong.filter((w) => !/40[034]|413|501/.test(w))).toEqual([]);
  });

  it("fit a telephone and a wall", async () => {
    for (const width of [390, 2560]) {
      const { page, wrong } = await eyes.at(served, `#analytics?last=30s&columns=3&${q}`, {
        width,
        height: 844,
        theme: "light",
      });
      await page.locator('[data-graph="2"][data-state="shown"]').waitFor();
      await fits(page);
      await accessible(page);
      await picture(page, `worksheet-${width}`);
      expect(wrong).toEqual([]);
    }
  });
});
