// The page in one file of a million calls: its size, the time from opening it to its first picture,
// and each frame of a zoom. Prints a table of docs/PERFORMANCE.md.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { drawnBy, million, ownTimes, said, watch } from "./drawn";
import { Eyes, lacks, program, until } from "./stage";

const runs = Number(process.env.RUNS ?? 5);

describe.skipIf(lacks !== "")("the page in one file of a million calls", () => {
  let eyes: Eyes;
  let dir = "";
  const table = said();
  beforeAll(async () => {
    eyes = await Eyes.open(true);
    dir = mkdtempSync(join(tmpdir(), "culprit-speed-"));
    writeFileSync(join(dir, "in.folded"), million());
    const begun = performance.now();
    const made = spawnSync(
      program,
      ["flame", "-o", join(dir, "out.html"), join(dir, "in.folded")],
      { encoding: "utf8" },
    );
    if (made.status !== 0) throw new Error(made.stderr);
    table.say("`culprit flame` makes it, its size in MB in brackets", "", [
      performance.now() - begun,
    ]);
    table.rows[0] = table.rows[0]!.replace(
      "brackets",
      `brackets (${(statSync(join(dir, "out.html")).size / 1e6).toFixed(1)})`,
    );
  });
  afterAll(async () => {
    await eyes?.close();
    rmSync(dir, { recursive: true, force: true });
    console.log(table.text("a page of a million calls in one file"));
  });

  it("is painted, and zoomed", async () => {
    const open: number[] = [];
    const all: number[] = [];
    const code: number[] = [];
    const pixels: number[] = [];
    const late: number[] = [];
    const alone: number[] = [];
    for (let n = 0; n < runs; n++) {
      const context = await eyes.browser.newContext({
        viewport: { width: 1600, height: 900 },
        colorScheme: n % 2 ? "light" : "dark",
      });
      const page = await context.newPage();
      await page.addInitScript(watch, ".graph canvas");
      await page.goto(`file://${join(dir, "out.html")}`, { waitUntil: "commit" });
      const first = await until(
        "the picture",
        async () => (await drawnBy(page).catch(() => []))[0],
      );
      open.push(first.begun + first.code + first.pixels);
      const there = await page.waitForFunction(() =>
        document.querySelector(".twin tbody tr") ? performance.now() : 0,
      );
      all.push((await there.jsonValue()) as number);
      await page.waitForTimeout(800);
      const box = (await page.locator(".graph canvas").first().boundingBox())!;
      if (n < 2)
        await page.screenshot({
          path: `${import.meta.dirname}/../../.cache/eyes/file-million-${n}.png`,
        });
      // Into calls of each width, and out again by the row of the root.
      const zoom = async () => {
        for (const [x, up] of [
          [0.5, 2],
          [0.5, 4],
          [0.3, 0],
        ] as const) {
          const before = (await drawnBy(page)).length;
          await page.mouse.move(box.x + box.width * x, box.y + 9 + 18 * up);
          await page.waitForTimeout(150);
          await page.evaluate(() => {
            const on = () => {
              const clicked = performance.now();
              requestAnimationFrame(() =>
                requestAnimationFrame(
                  () =>
                    ((window as unknown as { late: number }).late = performance.now() - clicked),
                ),
              );
            };
            document.addEventListener("pointerdown", on, { once: true, capture: true });
          });
          await page.mouse.down();
          await page.mouse.up();
          await page.waitForTimeout(400);
          late.push(await page.evaluate(() => (window as unknown as { late: number }).late));
          for (const f of (await drawnBy(page)).slice(before)) {
            code.push(f.code);
            pixels.push(f.pixels);
          }
        }
      };
      alone.push(...(await ownTimes(eyes.browser, page, zoom)));
      await context.close();
    }
    table.say("from opening it to its picture", "300", open);
    table.say("from opening it until all calls are there", "", all);
    table.say("a frame of a zoom or of the pointer's way: layout and drawing", "16", code);
    table.say("a frame: processor time of the page's thread", "16", alone);
    table.say("its pixels, without a graphics card", "", pixels);
    table.say("from a click to the second frame after it", "", late);
  });
});
