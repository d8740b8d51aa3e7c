import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const iperf = "/usr/bin/iperf3";
const missing =
  lacks !== ""
    ? lacks
    : process.getuid?.() !== 0
      ? "needs: root (network namespaces)"
      : !existsSync(iperf)
        ? "needs: tool iperf3"
        : "";

const one = `eyes-${process.pid}-a`;
const other = `eyes-${process.pid}-b`;
const ip = (...args: string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

/**
 * 160 Mbit/s from one namespace to another, until it is ended, and 20 Mbit/s of datagrams through a
 * second pair of devices. Both ends of that pair are named same0: the one receives nothing, the
 * other everything.
 */
function traffic(): () => void {
  ip("netns", "add", one);
  ip("netns", "add", other);
  ip("-n", one, "link", "add", "wire0", "type", "veth", "peer", "name", "wire1", "netns", other);
  ip("-n", one, "addr", "add", "10.251.7.1/30", "dev", "wire0");
  ip("-n", other, "addr", "add", "10.251.7.2/30", "dev", "wire1");
  ip("-n", one, "link", "set", "wire0", "up");
  ip("-n", other, "link", "set", "wire1", "up");
  ip("-n", one, "link", "add", "same0", "type", "veth", "peer", "name", "same0", "netns", other);
  ip("-n", one, "addr", "add", "10.251.8.1/30", "dev", "same0");
  ip("-n", other, "addr", "add", "10.251.8.2/30", "dev", "same0");
  ip("-n", one, "link", "set", "same0", "up");
  ip("-n", other, "link", "set", "same0", "up");
  const inside = (netns: string, ...args: string[]) =>
    spawn("ip", ["netns", "exec", netns, iperf, ...args], { stdio: "ignore" });
  const children: ChildProcess[] = [inside(other, "-s"), inside(other, "-s", "-p", "5202")];
  const send = (...args: string[]) => {
    const c = inside(one, ...args, "-t", "300");
    c.on("exit", (code) => {
      // Exit status 1: the receiver was not listening yet.
      if (code === 1 && !ended) setTimeout(() => send(...args), 200);
    });
    children.push(c);
  };
  let ended = false;
  send("-c", "10.251.7.2", "-b", "160M");
  send("-c", "10.251.8.2", "-p", "5202", "-u", "-b", "20M");
  return () => {
    ended = true;
    for (const c of children) c.kill("SIGTERM");
    for (const n of [one, other]) {
      try {
        ip("netns", "del", n);
      } catch {
        // It was not made.
      }
    }
  };
}

interface Answer {
  start_ms: number;
  step_ms: number;
  elapsed_ms: number[];
  series: { key: string[]; values: (number | null)[] }[];
}

const number = (text: string): number =>
  text === "–" ? Number.NaN : Number(text.replaceAll("\u202f", "").replace("\u2212", "-"));

/** The panel of a graph: the number and the raw number at the crosshair, for each row. */
async function panel(
  page: Page,
  graph = 0,
): Promise<{ unit: string; rows: Record<string, { shown: string; raw: string }> }> {
  return page.evaluate((g) => {
    const section = document.querySelector(`[data-graph="${g}"] .panel`);
    const rows: Record<string, { shown: string; raw: string }> = {};
    for (const tr of section?.querySelectorAll("tbody tr") ?? []) {
      const value = tr.querySelector<HTMLElement>("td.num");
      rows[tr.querySelector(".text")?.textContent ?? ""] = {
        shown: value?.querySelector(".n")?.textContent ?? "",
        raw: value?.title ?? "",
      };
    }
    // Each row has a unit of its own: this is that of the axis.
    return { unit: section?.closest<HTMLElement>("[data-unit]")?.dataset.unit ?? "", rows };
  }, graph);
}

/** The table twin of a graph: the labels of its columns, and its lines by the end of their time. */
async function twin(
  page: Page,
  graph = 0,
): Promise<{ names: string[]; lines: Map<number, number[]> }> {
  const got = await page.evaluate((g) => {
    const t = document.querySelector(`[data-graph="${g}"] .twin table`);
    return {
      names: [...(t?.querySelectorAll<HTMLElement>("thead th[data-row]") ?? [])].map(
        (h) => h.dataset.row ?? "",
      ),
      lines: [...(t?.querySelectorAll<HTMLElement>("tbody tr") ?? [])].map(
        (tr) =>
          [
            Number(tr.dataset.ms),
            [...tr.querySelectorAll("td")].map((d) => d.textContent ?? ""),
          ] as const,
      ),
    };
  }, graph);
  return {
    names: got.names,
    lines: new Map(got.lines.map(([ms, cells]) => [ms, cells.map(number)])),
  };
}

/**
 * The table when it is complete: the total of all rows is a query of its own, and may come
 * after the rows.
 */
async function whole(page: Page): Promise<Awaited<ReturnType<typeof twin>>> {
  await page.locator('[data-graph="0"] .twin tbody tr').first().waitFor();
  let before = "";
  return until("the table is complete", async () => {
    const now = await twin(page);
    const text = JSON.stringify([now.names, [...now.lines]]);
    const still = text === before;
    before = text;
    if (!still) await page.waitForTimeout(500);
    return still && now;
  });
}

/** How many pixels of a graph have nearly the colour of a custom property of the theme. */
async function pixels(page: Page, property: string, graph = 0): Promise<number> {
  return page.evaluate(
    ([name, g]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(
        `[data-graph="${g}"] .plot canvas:not(.over)`,
      )!;
      const hex = getComputedStyle(canvas).getPropertyValue(name!).trim();
      const want = [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16));
      // Of a copy: a canvas that is read often is one that the browser warns about.
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {
        willReadFrequently: true,
      })!;
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]! > 200 && want.every((w, k) => Math.abs(w - data[i + k]!) < 40)) n++;
      }
      return n;
    },
    [property, String(graph)] as const,
  );
}

const wires = `net.device.bytes by device,direction where device ~ "wire*"`;
const at = (...sentences: string[]): string =>
  sentences.map((s) => `q=${encodeURIComponent(s)}`).join("&");
const sentenceOf = (page: Page, graph: number): Promise<string | null> =>
  page.locator(`[data-graph="${graph}"] .sentence`).textContent();

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

  it("gets the data of a graph that was first asked for while the server was away", async () => {
    const { page, context } = await eyes.at(served, `#analytics?last=30s&${at(wires)}`);
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    await served.down();
    try {
      await until(
        "it is not connected",
        async () => (await page.getByRole("alert").count()) > 0,
        15_000,
      );
      const add = page.getByRole("combobox", { name: "query of a new graph" });
      await page.keyboard.press("g");
      await add.fill("cpu.time by mode");
      await page.keyboard.press("Enter");
      await page.locator('[data-graph="1"][data-state="trouble"]').waitFor();
      expect(await page.locator('[data-graph="1"] .trouble').innerText()).toContain(
        "No connection to culprit",
      );
      // Long enough that what is tried again at once has been tried again.
      await page.waitForTimeout(3000);
    } finally {
      await served.up();
    }
    await page.locator('[data-graph="1"][data-state="shown"]').waitFor({ timeout: 30_000 });
    await until("its rows follow the time", async () =>
      Object.keys((await panel(page, 1)).rows).includes("usr"),
    );
    expect(await page.locator('[data-graph="1"] .trouble').count()).toBe(0);
    await context.close();
  });

  it("offers to record what is not recorded, and shows it then", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      "#analytics?last=30s&q=tcp.connections+by+state",
    );
    const offer = page.getByRole("button", { name: "record it from now on" });
    await offer.waitFor();
    await accessible(page);
    await picture(page, "analytics-not-recorded");
    await offer.click();
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    await until("its rows", async () => Object.keys((await panel(page)).rows).includes("listen"));
    const { datasets } = await served.get<{ datasets: { sentence: string; maker: string }[] }>(
      "datasets",
    );
    expect(
      datasets.filter((d) => d.sentence === "tcp.connections by state").map((d) => d.maker),
    ).toEqual(["page"]);
    expect(wrong.every((w) => w.includes("404"))).toBe(true);
    await context.close();
  });

  it("completes a sentence, and says where one is wrong", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      "#analytics?last=30s&q=cpu.time+by+mode",
    );
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    await page.locator('[data-graph="0"] .sentence').click();
    const field = page.getByRole("combobox", { name: "query of graph 1" });
    await field.fill("");
    await field.pressSequentially("net.dev");
    await page.getByRole("option", { name: /^net\.device\.bytes/ }).waitFor();
    await field.fill("cpu.time by ");
    await page.getByRole("option", { name: /^mode/ }).waitFor();
    await accessible(page);
    await picture(page, "analytics-completion");
    await field.fill("cpu.time by moed");
    await page.keyboard.press("Enter");
    await until(
      "what is wrong",
      async () => (await page.locator('[data-graph="0"] .wrong').textContent()) === "moed",
    );
    expect(await page.locator('[data-graph="0"] [role="alert"]').innerText()).toContain(
      "did you mean mode",
    );
    expect(wrong.every((w) => w.includes("400"))).toBe(true);
    await context.close();
  });

  it("is a heat map where rows are many, and a row of it can be clicked", async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      `#analytics?last=30s&${at("process.cpu by process", wires)}&o=heat`,
    );
    await page.locator('[data-graph="0"] button.row', { hasText: "iperf3" }).waitFor();
    const box = (await page.locator('[data-graph="0"] canvas.over').boundingBox())!;
    await page.mouse.move(box.x + box.width - 30, box.y + 8);
    await until("the name of the row", async () =>
      page.locator('[data-graph="0"] .note').textContent({ timeout: 2000 }),
    );
    await picture(page, "analytics-heat");
    await page.mouse.click(box.x + box.width - 30, box.y + 8);
    await until("it is selected", async () => page.url().includes("sel%3D"));
    const selected = page.locator('[data-graph="0"] button.row[aria-pressed="true"] .text');
    // The order may have changed before the click: the selected row is the only one now.
    const now = (await page.locator('[data-graph="0"] canvas.over').boundingBox())!;
    await page.mouse.move(now.x + now.width - 31, now.y + 8);
    await until("the note names the selected row", async () =>
      (await page.locator('[data-graph="0"] .note').textContent())?.includes(
        (await selected.textContent())!.trim(),
      ),
    );
    await accessible(page);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("leaves a gap where the server was down: no line across it, and no zero", async () => {
    const { page, context } = await eyes.at(served, `#analytics?last=40s&${at(wires)}&o=table`);
    await page.locator('[data-graph="0"] .twin tbody tr').first().waitFor();
    await served.down();
    // With a step, the answer's grid begins at the requested start.
    const went = Math.floor(Date.now() / 1000) * 1000;
    await page.waitForTimeout(4000);
    await served.up();
    const came = Math.ceil(Date.now() / 1000) * 1000;
    await page.waitForTimeout(3000);
    await page.reload();
    await page.locator('[data-graph="0"] .twin tbody tr').first().waitFor();
    const { names, lines } = await twin(page);
    const column = names.indexOf("wire0 tx");
    // Which seconds were measured, the server says: those of the gap are the ones between that were
    // not.
    const answer = await served.get<Answer>(
      `ask?q=${encodeURIComponent(wires)}&from=${went - 5000}&to=${came + 2000}&step=1000`,
    );
    const row = answer.series.find((x) => x.key.join(" ") === "wire0 tx")!;
    let gap = 0;
    let after = 0;
    answer.elapsed_ms.forEach((measured, c) => {
      const ms = answer.start_ms + (c + 1) * answer.step_ms;
      const line = lines.get(ms);
      if (!line) return;
      if (measured === 0) {
        gap++;
        expect(line[column], "nothing, and no zero").toBeNaN();
      } else if (row.values[c] !== null) {
        const v = row.values[c]!;
        expect(Math.abs(line[column]! - v)).toBeLessThanOrEqual(v * 2e-7);
        if (ms > came && v > 0) after++;
      }
    });
    expect(gap, "seconds without a measurement").toBeGreaterThanOrEqual(3);
    expect(after, "seconds after the gap").toBeGreaterThan(0);
    await picture(page, "analytics-gap");
    await context.close();
  });

  it("zooms by a drag, finds the maximum, and marks two moments", async () => {
    const { page, context, wrong } = await eyes.at(served, `#analytics?last=1m&${at(wires)}`);
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    const box = (await page.locator('[data-graph="0"] canvas.over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.95, box.y + 50, { steps: 4 });
    await page.mouse.up();
    await until("the stretch of the drag", async () => {
      const q = new URLSearchParams(page.url().split("?")[1]);
      const ms = Date.parse(q.get("to") ?? "") - Date.parse(q.get("from") ?? "");
      return ms > 18_000 && ms < 26_000;
    });
    await page.keyboard.press("m");
    await until("the crosshair", async () => /[?&]at=\d+/.test(page.url()));
    await page.keyboard.press("[");
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40);
    await page.keyboard.press("]");
    await page.getByText("A to B").first().waitFor();
    await picture(page, "analytics-marks");
    expect(wrong).toEqual([]);
    await context.close();
  });
});
