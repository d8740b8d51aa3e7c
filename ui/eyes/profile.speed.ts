// A profile of a million calls on the screen: to its first picture, and each frame of a zoom.
// Prints a table of docs/PERFORMANCE.md.

import { afterAll, beforeAll, describe, it } from "vitest";
import { drawnBy, million, ownTimes, said, watch } from "./drawn";
import { Eyes, lacks, Served, until } from "./stage";

const runs = Number(process.env.RUNS ?? 5);
const table = said();
const { say } = table;

describe.skipIf(lacks !== "")("a profile of a million calls", () => {
  let served: Served;
  let eyes: Eyes;
  let id = "";
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open(true);
    const text = million();
    const begun = performance.now();
    const answer = await fetch(`${served.url}api/profiles?name=million`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${served.token}`,
        "X-Culprit": "1",
        "Content-Type": "application/octet-stream",
      },
      body: text,
    });
    if (!answer.ok) throw new Error(await answer.text());
    const kept = (await answer.json()) as { id: string; nodes: number; depth: number };
    id = kept.id;
    say(
      `a file of ${kept.nodes.toLocaleString("en")} calls (${Math.round(text.length / 1e6)} MB), read by the server`,
      "",
      [performance.now() - begun],
    );
  });
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
    console.log(table.text("a profile on the screen"));
  });

  it("is painted, and zoomed", async () => {
    const open: number[] = [];
    const answer: number[] = [];
    const rest: number[] = [];
    const all: number[] = [];
    const code: number[] = [];
    const frame: number[] = [];
    const pixels: number[] = [];
    const apart: number[] = [];
    const alone: number[] = [];
    for (let n = 0; n < runs; n++) {
      const look = await eyes.at(served, "#profile", { width: 1600, height: 900 });
      const { page, context } = look;
      await page.close();
      const own = await context.newPage();
      await own.addInitScript(watch, ".graph");
      await own.goto(`${served.url}#profile`);
      await own.waitForSelector("main h1");
      await own.waitForTimeout(500);
      const clicked = await own.evaluate((p) => {
        location.hash = `#profile?p=${p}`;
        return performance.now();
      }, id);
      const first = await until("the picture", async () => (await drawnBy(own))[0]);
      const picture = first.begun + first.code + first.pixels;
      const asked = await own.evaluate(() => {
        const e = performance
          .getEntriesByType("resource")
          .find((r) => r.name.includes("/api/profile?id=")) as PerformanceResourceTiming;
        return [e.startTime, e.responseEnd];
      });
      open.push(picture - clicked);
      answer.push(asked[1]! - asked[0]!);
      rest.push(picture - asked[1]!);
      code.push(first.code);
      const there = await own.waitForFunction(() =>
        document.querySelector(".twin tbody tr") ? performance.now() : 0,
      );
      all.push(((await there.jsonValue()) as number) - clicked);
      await own.waitForTimeout(800);
      // Into the call that is widest below the root, and below that one, and out again.
      const zoom = async () => {
        for (const [x, y] of [
          [0.5, 45],
          [0.5, 81],
          [0.3, 9],
        ] as const) {
          const before = (await drawnBy(own)).length;
          const box = (await own.locator(".graph canvas").first().boundingBox())!;
          await own.mouse.click(box.x + box.width * x, box.y + y);
          await own.waitForTimeout(700);
          const frames = (await drawnBy(own)).slice(before);
          frames.forEach((f, i) => {
            frame.push(f.code);
            pixels.push(f.pixels);
            if (i > 0 && f.begun - frames[i - 1]!.begun < 200)
              apart.push(f.begun - frames[i - 1]!.begun);
          });
        }
      };
      alone.push(...(await ownTimes(eyes.browser, own, zoom)));
      if (n === 0)
        await own.screenshot({
          path: `${import.meta.dirname}/../../.cache/eyes/profile-million.png`,
        });
      await context.close();
    }
    say("a click on it, to its picture", "300", open);
    say(
      "of it the answer with what a picture needs, from the request to its last byte",
      "",
      answer,
    );
    say("of it from the last byte to the picture: columns, sums, layout, drawing", "", rest);
    say("of it the layout and drawing", "", code);
    say("a click on it, to all calls and the table of functions", "", all);
    say("a frame of a zoom: layout and drawing", "16", frame);
    say("a frame of a zoom: processor time of the page's thread", "16", alone);
    say("a frame of a zoom: its pixels, without a graphics card", "", pixels);
    say("from one frame of a zoom to the next", "", apart);
  });
});
