import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { graphTests } from "./graphs";
import { accessible, Eyes, fits, picture, Served, until } from "./stage";
import {
  type Answer,
  at,
  missing,
  number,
  one,
  other,
  panel,
  pixels,
  sentenceOf,
  traffic,
  whole,
  wires,
} from "./worksheet";

describe.skipIf(missing !== "")(`the worksheet${missing === "" ? "" : ` (${missing})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  let end = () => {};
  beforeAll(async () => {
    end = traffic();
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    await until("the traffic is recorded", async () => {
      const a = await served.get<Answer>(
        `ask?q=${encodeURIComponent(wires)}&from=-5s&to=now&step=1000`,
      );
      return a.series.some((s) => s.values.filter((v) => v !== null && v > 10e6).length >= 3);
    });
  });
  afterAll(async () => {
    end();
    await eyes?.close();
    await served?.end();
  });

  it("shows a newcomer the machine", async () => {
    const { page, context, wrong } = await eyes.at(served, "#analytics?last=1m");
    for (const g of [0, 1, 2, 3, 4])
      await page.locator(`[data-graph="${g}"][data-state="shown"]`).waitFor();
    expect(Object.keys((await panel(page, 0)).rows)).toContain("usr");
    // Each with its namespace: every one may have an eth0, and their sum is nobody's traffic. This
    // one's own has no name.
    const devices = Object.keys((await panel(page, 3)).rows);
    expect(devices.filter((d) => /^\S+ wire0 tx$/.test(d))).toHaveLength(1);
    expect(devices.filter((d) => d.includes('""'))).toEqual([]);
    // By default the tool shows only its own namespace.
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.locator('[data-graph="3"]').getByTitle("copy as command line").click();
    await until("the command line", async () =>
      (await page.evaluate(() => navigator.clipboard.readText())).match(
        /by netns,device.* --netns all$/,
      ),
    );
    expect(Object.keys((await panel(page, 4)).rows)).toContain("iperf3");
    expect((await panel(page, 1)).unit).toBe("GiB");
    await fits(page);
    await accessible(page);
    await picture(page, "analytics-first");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("shows real traffic each second, and its cost to the page is small", async () => {
    // One end of the wire: the other has the same numbers, and its line may lie on this one's.
    const end0 = `net.device.bytes by device,direction where device = "wire0"`;
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=1m&${at(end0)}`);
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    const bytes = await until("the rate in the panel", async () => {
      const r = (await panel(page)).rows["wire0 tx"];
      return r && number(r.raw.replace(" B/s", "")) > 15e6 && number(r.raw.replace(" B/s", ""));
    });
    expect(bytes).toBeLessThan(30e6); // 160 Mbit/s and what TCP and Ethernet add
    const place = await page
      .locator('[data-graph="0"] tr', { hasText: "wire0 tx" })
      .locator(".swatch")
      .getAttribute("data-place");
    await until("a line of its colour", async () => (await pixels(page, `--c${place}`)) > 50);
    const sheet = page.locator(".sheet");
    const ticks = new Set<string>();
    const costs: number[] = [];
    await until(
      "six ticks",
      async () => {
        ticks.add((await sheet.getAttribute("data-tick")) ?? "");
        costs.push(
          Number(await sheet.getAttribute("data-cost")),
          Number(await page.locator('[data-graph="0"]').getAttribute("data-drawn")),
        );
        return ticks.size >= 6;
      },
      15_000,
    );
    const list = [...ticks].map(Number);
    // Whoever looks ten times a second may miss one on a busy machine, and the server may have two
    // seconds in one.
    const apart = list.slice(1).map((t, i) => t - list[i]!);
    expect(
      apart.filter((ms) => ms === 1000).length,
      `a tick each second: ${apart}`,
    ).toBeGreaterThan(apart.length / 2);
    expect(
      apart.every((ms) => ms > 0 && ms <= 3000 && ms % 1000 === 0),
      `whole seconds: ${apart}`,
    ).toBe(true);
    console.log(`a tick costs the page ${Math.max(...costs).toFixed(1)} ms at most`);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("selects rows, and the unit follows", async () => {
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=30s&${at(wires)}`);
    const row = (name: string) => page.locator('[data-graph="0"] button.row', { hasText: name });
    await row("wire0 tx").waitFor();
    expect((await panel(page)).unit).toBe("MB/s");
    await page.locator('[data-graph="0"] .tools button', { hasText: "bit/s" }).click();
    expect((await panel(page)).unit).toBe("Mbit/s");
    const bits = (await panel(page)).rows["wire0 tx"]!;
    expect(number(bits.shown)).toBeCloseTo((number(bits.raw.replace(" B/s", "")) * 8) / 1e6, 0);
    await page.locator('[data-graph="0"] .tools button', { hasText: "bit/s" }).click();
    // What comes back are acknowledgements alone.
    await row("wire0 rx").click();
    await until("the unit of the small row", async () => (await panel(page)).unit === "kB/s");
    expect(page.url()).toContain("sel%3Dwire0,rx");
    expect(await row("wire0 rx").getAttribute("aria-pressed")).toBe("true");
    await picture(page, "analytics-selected");
    await row("wire0 tx").click({ modifiers: ["Shift"] });
    await until("the unit of both", async () => (await panel(page)).unit === "MB/s");
    await page.keyboard.press("Escape");
    expect(page.url()).not.toContain("sel");
    await page.goBack();
    expect(page.url()).toContain("sel");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("has a table twin with the numbers of the API, and an address that shows the same again", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      `#analytics?last=20s&${at(wires)}&o=table`,
    );
    await page.locator('[data-graph="0"] .twin tbody tr').first().waitFor();
    await page.keyboard.press(" ");
    const range = await until("the page is paused", async () => {
      const q = new URLSearchParams(page.url().split("?")[1]);
      return q.has("to") && { from: Date.parse(q.get("from")!), to: Date.parse(q.get("to")!) };
    });
    await page.waitForTimeout(2500); // the last second of it comes a little later
    await page.reload();
    const shown = await whole(page);
    const answer = await served.get<Answer>(
      `ask?q=${encodeURIComponent(wires)}&from=${range.from}&to=${range.to}&step=1000`,
    );
    let compared = 0;
    answer.series.forEach((s) => {
      const column = shown.names.indexOf(s.key.join(" "));
      expect(column, s.key.join(" ")).toBeGreaterThanOrEqual(0);
      s.values.forEach((v, c) => {
        const line = shown.lines.get(answer.start_ms + (c + 1) * answer.step_ms);
        if (!line) return;
        compared++;
        if (v === null) expect(line[column]).toBeNaN();
        // The page draws 32-bit numbers.
        else expect(Math.abs(line[column]! - v)).toBeLessThanOrEqual(Math.abs(v) * 2e-7);
      });
    });
    expect(compared).toBeGreaterThanOrEqual(4 * 18);
    const before = page.url();
    await page.goto("about:blank");
    await page.goto(before);
    expect(await whole(page)).toEqual(shown);
    await accessible(page);
    await picture(page, "analytics-table");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("goes from a row to what else is known of it", async () => {
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=30s&${at(wires)}`);
    await page.locator('[data-graph="0"] button.row', { hasText: "wire0 tx" }).click();
    await page.keyboard.press("d");
    const menu = page.getByRole("dialog", { name: "wire0 tx" });
    await menu.waitFor();
    await accessible(page);
    await picture(page, "analytics-drill");
    await page.keyboard.type("packets by");
    await page.keyboard.press("Enter");
    await page.locator('[data-graph="1"][data-state="shown"]').waitFor();
    expect(await sentenceOf(page, 1)).toMatch(
      /^net\.device\.packets by netns where .*device = "wire0" and direction = "tx"$/,
    );
    await until("its rows", async () => Object.keys((await panel(page, 1)).rows).includes(one));
    await page.locator('[data-graph="0"] button.row', { hasText: "wire0 tx" }).hover();
    await page.keyboard.press("i");
    await until("only that row", async () =>
      (await sentenceOf(page, 0))?.includes('device = "wire0" and direction = "tx"'),
    );
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("carries the namespace and every term from a row, and its title names the terms that are lost", async () => {
    const both =
      'net.device.bytes by netns,device,direction where device ~ "same*" and direction = "rx"';
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=30s&${at(both)}`);
    const row = page.locator('[data-graph="0"] button.row', { hasText: `${one} same0 rx` });
    await row.click();
    const drill = async (text: string): Promise<void> => {
      await page.locator('[data-graph="0"]').hover();
      await page.keyboard.press("d");
      await page.getByRole("dialog", { name: `${one} same0 rx` }).waitFor();
      await page.keyboard.type(text);
      await page.keyboard.press("Enter");
    };
    const value = async (graph: number, name: string): Promise<number> =>
      number((await panel(page, graph)).rows[name]!.raw.split(" ")[0]!);

    // This end receives next to nothing. With the other namespace's device of that name it would be
    // 1,700 packets a second.
    await drill("net.device.packets");
    await page.locator('[data-graph="1"][data-state="shown"]').waitFor();
    const kept = `where device ~ "same*" and netns = "${one}" and device = "same0" and direction = "rx"`;
    expect(await sentenceOf(page, 1)).toBe(`net.device.packets ${kept}`);
    const packets = (where: string) =>
      served.get<Answer>(
        `ask?q=${encodeURIComponent(`net.device.packets ${where}`)}&from=-10s&to=now`,
      );
    const other0 = await packets(kept.replace(one, other));
    expect(Math.max(...other0.series[0]!.values.map(Number))).toBeGreaterThan(1000);
    expect(await value(1, "all")).toBeLessThan(100);
    const title = (graph: number) => page.locator(`[data-graph="${graph}"] header`).innerText();
    expect(await title(1)).not.toContain("not narrowed");

    // A statistic without directions.
    await drill("net.device.uses");
    await page.locator('[data-graph="1"] .chip.hot').waitFor();
    const uses = `net.device.uses by use where device ~ "same*" and netns = "${one}" and device = "same0"`;
    expect(await sentenceOf(page, 1)).toBe(uses);
    expect(await title(1)).toContain('not narrowed by direction = "rx"');
    await accessible(page);
    await picture(page, "analytics-wider");
    // The opener of the link sees it too.
    await page.reload();
    await page.locator('[data-graph="1"] .chip.hot').waitFor();
    // From there the term is carried again.
    await page.locator('[data-graph="1"] .more').first().click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("net.device.packets");
    await page.keyboard.press("Enter");
    await until("the graph below", async () =>
      (await sentenceOf(page, 2))?.startsWith("net.device.packets"),
    );
    for (const term of [`netns = "${one}"`, 'device = "same0"', 'direction = "rx"'])
      expect(await sentenceOf(page, 2)).toContain(term);
    const lost = page.locator('[data-graph="2"] .chip.hot > span');
    expect(await lost.innerText()).toMatch(/^not narrowed by use = "[^"]+"$/);
    // A graph of another statistic is a new question.
    await page.locator('[data-graph="1"] .sentence').click();
    await page.getByRole("combobox", { name: "query of graph 2" }).fill("cpu.time by mode");
    await page.keyboard.press("Enter");
    await until("it is gone", async () => (await sentenceOf(page, 1)) === "cpu.time by mode");
    expect(await title(1)).not.toContain("not narrowed");
    expect(wrong.filter((w) => !w.includes("404"))).toEqual([]);
    await context.close();
  });

  it("folds the notes of a graph behind one button", async () => {
    const sentence = "disk.bytes by direction"; // over devices that contain one another
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=30s&${at(sentence)}`);
    const graph = page.locator('[data-graph="0"]');
    const note = graph.getByText("counts some of it more than once");
    const button = graph.getByRole("button", { name: /^\d+ notes?$/ });
    await button.waitFor();
    expect(await note.isVisible()).toBe(false);
    await button.click();
    expect(await note.isVisible()).toBe(true);
    await accessible(page);
    await button.click();
    expect(await note.isVisible()).toBe(false);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("has a row for each namespace's device where a drill breaks down by devices", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      `#analytics?last=30s&${at("net.device.bytes by direction")}`,
    );
    await page.locator('[data-graph="0"] button.row', { hasText: /^rx$/ }).click();
    await page.keyboard.press("d");
    await page.getByRole("dialog", { name: "rx" }).waitFor();
    await page.keyboard.type("device for direction rx");
    await page.keyboard.press("Enter");
    await page.locator('[data-graph="1"][data-state="shown"]').waitFor();
    expect(await sentenceOf(page, 1)).toBe(
      'net.device.bytes by netns,device where direction = "rx"',
    );
    const rows = await until("both", async () => {
      const names = Object.keys((await panel(page, 1)).rows).filter((n) => n.endsWith("same0"));
      return names.length === 2 && names;
    });
    expect(rows.sort()).toEqual([`${one} same0`, `${other} same0`]);
    expect(wrong).toEqual([]);
    await context.close();
  });

  graphTests(() => ({ served, eyes }));
});
