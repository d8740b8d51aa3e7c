// What the tests of the worksheet share: traffic between two network namespaces, and what a graph
// shows.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Page } from "playwright-core";
import { lacks, until } from "./stage";

const iperf = "/usr/bin/iperf3";
export const missing =
  lacks !== ""
    ? lacks
    : process.getuid?.() !== 0
      ? "needs: root (network namespaces)"
      : !existsSync(iperf)
        ? "needs: tool iperf3"
        : "";

export const one = `eyes-${process.pid}-a`;
export const other = `eyes-${process.pid}-b`;
export const ip = (...args: string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

/**
 * 160 Mbit/s from one namespace to another, until it is ended, and 20 Mbit/s of datagrams through a
 * second pair of devices. Both ends of that pair are named same0: the one receives nothing, the
 * other everything.
 */
export function traffic(): () => void {
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

export interface Answer {
  start_ms: number;
  step_ms: number;
  elapsed_ms: number[];
  series: { key: string[]; values: (number | null)[] }[];
}

export const number = (text: string): number =>
  text === "–" ? Number.NaN : Number(text.replaceAll("\u202f", "").replace("\u2212", "-"));

/** The panel of a graph: the number and the raw number at the crosshair, for each row. */
export async function panel(
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
export async function twin(
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
export async function whole(page: Page): Promise<Awaited<ReturnType<typeof twin>>> {
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
export async function pixels(page: Page, property: string, graph = 0): Promise<number> {
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

export const wires = `net.device.bytes by device,direction where device ~ "wire*"`;
export const at = (...sentences: string[]): string =>
  sentences.map((s) => `q=${encodeURIComponent(s)}`).join("&");
export const sentenceOf = (page: Page, graph: number): Promise<string | null> =>
  page.locator(`[data-graph="${graph}"] .sentence`).textContent();
