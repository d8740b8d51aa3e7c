// Tests of single graphs of the worksheet. They share the server and the traffic of the others.

import { expect, it } from "vitest";
import { accessible, type Eyes, picture, type Served, until } from "./stage";
import { type Answer, at, panel, twin, wires } from "./worksheet";

/** Registers the tests; stage returns what they stand on when they run. */
export function graphTests(stage: () => { served: Served; eyes: Eyes }): void {
  it("gets the data of a graph that was first asked for while the server was away", async () => {
    const { served, eyes } = stage();
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
    const { served, eyes } = stage();
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
    const { served, eyes } = stage();
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
    const { served, eyes } = stage();
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
    const { served, eyes } = stage();
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
    const { served, eyes } = stage();
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
      return ms > 10_000 && ms < 26_000; // a third of a minute, or of a younger recording
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
}
