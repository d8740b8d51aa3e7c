import { existsSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Clients, clients } from "./clients";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const tool = (path: string): string =>
  existsSync(path) ? "" : `needs: tool ${path.split("/").pop()}`;
const missing =
  lacks !== ""
    ? lacks
    : process.getuid?.() !== 0 || !existsSync("/dev/net/tun")
      ? "needs: root (network namespaces, taps)"
      : tool("/usr/bin/iperf3") || tool("/usr/sbin/ethtool") || tool("/usr/bin/perl");

interface Answer {
  series: { key: string[]; values: (number | null)[]; unlike?: { score: number } }[];
}

/** The text of a cell of the first row of a graph, in which a name is as it is. */
const firstRow = (page: Page, graph: number) =>
  page.locator(`[data-graph="${graph}"] tbody tr`).first();

describe.skipIf(missing !== "")(`a slow client${missing === "" ? "" : ` (${missing})`}`, () => {
  let served: Served;
  let eyes: Eyes;
  let net: Clients;
  beforeAll(async () => {
    net = await clients();
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    const flows = `tcp.flow.bytes by peer,direction where netns = "${net.server.netns}" and direction = "tx"`;
    await until(
      "the slow client differs from the others",
      async () => {
        const a = await served.get<Answer>(
          `ask?q=${encodeURIComponent(flows)}&from=-20s&to=now&step=20s`,
        );
        return a.series.some((s) => s.key[0] === net.slow.address && (s.unlike?.score ?? 0) < -6);
      },
      120_000,
    );
  }, 180_000);
  afterAll(async () => {
    net?.end();
    await eyes?.close();
    await served?.end();
  });

  it("is found by clicks alone, down to the speed of its link", async () => {
    const { page, context, wrong } = await eyes.at(served, "#now", { width: 1440, height: 900 });
    let clicks = 0;
    const click = async (what: ReturnType<Page["locator"]>): Promise<void> => {
      clicks++;
      await what.click();
    };
    const ask = async (
      graph: number,
      row: ReturnType<Page["locator"]>,
      question: string,
    ): Promise<void> => {
      await click(row.locator(".more"));
      const asked = page.getByRole("menuitem", { name: question });
      await asked.waitFor();
      expect(await page.locator(".question").count(), "questions about a row").toBeLessThanOrEqual(
        7,
      );
      await picture(page, `story2-question-${graph}`);
      await click(asked);
      await page
        .locator(`[data-graph="${graph + 1}"][data-state="shown"] tbody tr`)
        .first()
        .waitFor();
    };

    await click(page.getByRole("link", { name: "Analytics" }));
    // The graph of the interfaces; that of the server sends the most.
    const network = 3;
    await page.locator(`[data-graph="${network}"][data-state="shown"]`).waitFor();
    const nic = page.locator(`[data-graph="${network}"] tbody tr`, {
      has: page.locator(`button.row[title*="netns ${net.server.netns}"][title*="direction tx"]`),
    });
    // Where others have many interfaces too, its row is behind a button.
    const more = page
      .locator(`[data-graph="${network}"]`)
      .getByRole("button", { name: /more rows/ });
    await until("the interface", async () => (await nic.count()) > 0 || (await more.count()) > 0);
    if ((await nic.count()) === 0) await click(more);
    await ask(network, nic, "Who sends and receives through it?");
    const peers = network + 1;

    // Nobody looks for it: the slow client is the first row, and the only bold line.
    const slow = firstRow(page, peers);
    await until("the slow client is the first row", async () =>
      (await slow.locator(".text").textContent())?.includes(net.slow.address),
    );
    expect(await slow.locator(".badge").textContent()).toContain("unlike the others");
    expect(await slow.locator(".swatch").getAttribute("data-place")).not.toBe("-1");
    expect(await page.locator(`[data-graph="${peers}"] .badge`).count()).toBe(1);
    await until("its line is the brightest", async () => brightest(page, peers));
    await picture(page, "story2-clients");
    await accessible(page);

    await ask(peers, slow, "Is its link slow?");
    const link = peers + 1;
    await until("the speed of its link", async () => {
      const text = await firstRow(page, link).locator("td.num").first().textContent();
      return text === "100Mbit/s";
    });
    const terms = await page.locator(`[data-graph="${link}"] .chip`).allTextContents();
    expect(terms.join(" ")).toContain(`netns = "${net.slow.netns}"`);
    await picture(page, "story2-link");
    expect(clicks, "clicks down to the speed").toBeLessThanOrEqual(6);

    await ask(link, firstRow(page, link), "Compare with the others");
    await until("the slow link is the first of all", async () =>
      (
        await firstRow(page, link + 1)
          .locator(".text")
          .textContent()
      )?.includes(net.slow.netns),
    );
    expect(
      await firstRow(page, link + 1)
        .locator(".badge")
        .count(),
    ).toBe(1);
    await picture(page, "story2-compared");
    await fits(page);
    expect(wrong).toEqual([]);
    await context.close();
  }, 400_000);
});

/** Whether more pixels of a graph have the colour of its first row than that of any other row. */
async function brightest(page: Page, graph: number): Promise<boolean> {
  return page.evaluate((g) => {
    const section = document.querySelector(`[data-graph="${g}"]`)!;
    const canvas = section.querySelector<HTMLCanvasElement>(".plot canvas:not(.over)")!;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {
      willReadFrequently: true,
    })!;
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const counts = [...section.querySelectorAll<HTMLElement>("tbody .swatch[data-place]")].map(
      (s) => {
        const want = getComputedStyle(s).backgroundColor.match(/\d+/g)!.map(Number);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
          if (data[i + 3]! > 230 && want.every((w, k) => Math.abs(w - data[i + k]!) < 25)) n++;
        return n;
      },
    );
    return counts.length > 3 && counts.every((n, i) => i === 0 || n * 2 < counts[0]!);
  }, graph);
}
