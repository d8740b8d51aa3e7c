// A page that stays open: seconds pass in less than a second. The page gets the ticks of the
// server again and again, each a second after the one before.

import type { CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Eyes, lacks, Served, until } from "./stage";

/** HOUR_TICKS=3600 measures a whole hour, which takes ten minutes. */
const ticks = Number(process.env.HOUR_TICKS ?? 200);

const queries = [
  "cpu.time by mode",
  "cpu.time by cpu,mode",
  "memory.size by kind",
  "disk.bytes by device,direction",
  "disk.busy by device",
  "disk.operations by device,direction",
  "net.device.bytes by netns,device,direction",
  "net.protocol.events by counter",
  "process.cpu by process",
  "process.rss by process",
  "process.threads by process",
  "tcp.flow.bytes by peer,direction",
  "sched.runnable",
  "sched.load by window",
  "cache.entries by cache",
  "irq.count by irq",
  "pressure.time by resource,scope",
  "filesystem.size by mount,kind",
  "cgroup.memory by cgroup,kind",
  "cpu.interrupts by cpu",
];

interface Walk {
  hour: { sent: number; send(n: number): void };
}

/** Keeps the newest tick of the live stream, and sends it again on request. */
function again(): void {
  const real = window.fetch;
  const hour = { sent: 0, send: (_: number): void => {} };
  (window as unknown as Walk).hour = hour;
  window.fetch = async (input, init) => {
    const answer = await real(input, init);
    if (!/api\/live\?/.test(input instanceof Request ? input.url : String(input))) return answer;
    const reader = answer.body!.getReader();
    const [to, from] = [new TextEncoder(), new TextDecoder()];
    let out: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (c) => {
        out = c;
      },
      cancel: (why) => reader.cancel(why),
    });
    const put = (event: string): void => {
      try {
        out.enqueue(to.encode(`${event}\n\n`));
      } catch {
        // The page has begun another stream.
      }
    };
    let tick: { at_ms: number; answers: { series?: { values?: (number | null)[] }[] }[] } | null =
      null;
    const read = async (): Promise<void> => {
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        text += from.decode(value, { stream: true });
        for (let i = text.indexOf("\n\n"); i >= 0; i = text.indexOf("\n\n")) {
          const event = text.slice(0, i);
          text = text.slice(i + 2);
          if (tick) continue;
          put(event);
          if (event.startsWith("event: tick")) tick = JSON.parse(event.split("data: ")[1]!);
        }
      }
    };
    read().catch(() => {}); // aborted
    hour.send = (n) => {
      for (; tick && n > 0; n--) {
        tick.at_ms += 1000;
        hour.sent++;
        for (const a of tick.answers)
          for (const row of a.series ?? [])
            row.values = row.values?.map((v) => v && v * (0.8 + 0.4 * Math.random())) ?? [];
        put(`event: tick\ndata: ${JSON.stringify(tick)}`);
      }
    };
    return new Response(body, { status: answer.status, headers: answer.headers });
  };
}

/** Sends ticks, some per frame, so that each is drawn or overtaken as in a page that is busy. */
async function send(page: Page, n: number): Promise<void> {
  await page.evaluate(async (count) => {
    const { hour } = window as unknown as Walk;
    for (let left = count; left > 0; left -= 5) {
      hour.send(Math.min(5, left));
      await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
    }
  }, n);
}

interface Held {
  heap: number;
  nodes: number;
  listeners: number;
}

/** What the page holds after garbage collection. */
async function held(cdp: CDPSession): Promise<Held> {
  for (let i = 0; i < 3; i++) await cdp.send("HeapProfiler.collectGarbage");
  const { metrics } = await cdp.send("Performance.getMetrics");
  const of = (name: string): number => metrics.find((m) => m.name === name)!.value;
  return {
    heap: of("JSHeapUsedSize"),
    nodes: of("Nodes"),
    listeners: of("JSEventListeners"),
  };
}

let served: Served;
let eyes: Eyes;
beforeAll(async () => {
  if (lacks !== "") return;
  [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
});
afterAll(async () => {
  await eyes?.close();
  await served?.end();
});

describe.skipIf(lacks !== "")(`an open page${lacks === "" ? "" : ` (${lacks})`}`, () => {
  it("holds no more after many ticks of 20 graphs", { timeout: 1_200_000 }, async () => {
    const { page, context } = await eyes.at(served, "#datasets");
    await page.addInitScript(again);
    const { recorded_ms } = await served.get<{ recorded_ms: number }>("health");
    // A range that is recorded as a whole: it stays as long as it is.
    await until("20 s are recorded", async () => Date.now() > recorded_ms + 22_000, 60_000);
    const q = queries.map((x) => `&q=${encodeURIComponent(x)}`).join("");
    await page.goto(`${served.url}#analytics?last=20s${q}`);
    await page.reload();
    await until(
      "the graphs",
      async () => (await page.locator('[data-graph][data-state="shown"]').count()) >= 18,
    );
    await until("ticks", async () => {
      await send(page, 5);
      return page.evaluate(() => (window as unknown as Walk).hour.sent > 20);
    });
    const cdp = await context.newCDPSession(page);
    await cdp.send("Performance.enable");
    await send(page, 150);
    const before = await held(cdp);
    const began = Date.now();
    await send(page, ticks);
    const seconds = (Date.now() - began) / 1000;
    const after = await held(cdp);
    const mega = (n: number): string => (n / 1e6).toFixed(2);
    console.log(
      `${ticks} ticks in ${seconds.toFixed(0)} s: heap ${mega(before.heap)} to ${mega(after.heap)} MB, ` +
        `nodes ${before.nodes} to ${after.nodes}, listeners ${before.listeners} to ${after.listeners}`,
    );
    const shown = Number(await page.locator(".sheet").getAttribute("data-tick"));
    expect(shown - began, "the ticks are shown").toBeGreaterThan(ticks * 900);
    expect(after.heap - before.heap, "bytes more").toBeLessThan(1e6);
    expect(after.nodes - before.nodes, "nodes more").toBeLessThan(400);
    expect(after.listeners - before.listeners, "listeners more").toBeLessThan(20);
  });
});
