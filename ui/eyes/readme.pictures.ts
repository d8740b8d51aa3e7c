// The pictures of README.md and docs/PAGE.md, of a machine that sends as much as its line carries.
// .ci/pictures makes that machine, with eth0 of 1 Gbit/s and a receiver behind it.

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Eyes, lacks, Served, until } from "./stage";

const receiver = "10.20.3.34";

let served: Served;
let eyes: Eyes;
beforeAll(async () => {
  if (lacks !== "") throw new Error(lacks);
  [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
});
afterAll(async () => {
  await eyes?.close();
  await served?.end();
});

const seconds = (n: number) => new Promise((r) => setTimeout(r, n * 1000));

/** Sends until it is ended; with a rate, so much of a second. */
function send(rate = "0"): ChildProcess {
  return spawn("iperf3", ["-c", receiver, "-t", "600", "-b", rate], { stdio: "ignore" });
}

async function keep(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.screenshot({
    path: join(import.meta.dirname, "..", "..", "docs", "img", `${name}.png`),
  });
}

it("makes the pictures", async () => {
  // A quiet time, a busy one, and then more than the line carries: there is something to see in
  // each course.
  await seconds(20);
  let sending = send("400M");
  try {
    await seconds(15);
    const ended = new Promise((r) => sending.once("exit", r));
    sending.kill("SIGINT");
    await ended;
    sending = send();
    // The browser's own start would be in the picture.
    await seconds(25);
    const { page, context, wrong } = await eyes.at(served, "#now");
    await seconds(30);
    await until(
      "eth0 is all that is found, and no other resource is saturated",
      async () => {
        const found = await page.locator("main article h2").allInnerTexts();
        return (
          found.length === 1 &&
          found[0]!.startsWith("eth0 is full") &&
          (await page.locator("main tbody :is(.warm, .hot) > .mark").count()) === 1
        );
      },
      240_000,
    );
    await keep(page, "now");

    await page.goto(`${served.url}#analytics?last=2m`);
    await until("the graphs", async () => (await page.locator("main canvas").count()) > 4);
    await seconds(5);
    await keep(page, "analytics");

    await page.setViewportSize({ width: 1280, height: 700 });
    await page.goto(`${served.url}#findings`);
    await page
      .getByRole("button", { name: /eth0 is full/ })
      .last()
      .click();
    await seconds(5);
    await keep(page, "findings");
    await context.close();

    const light = await eyes.at(served, "#datasets", { theme: "light", height: 540 });
    await light.page.getByRole("columnheader", { name: /CPU/ }).getByRole("button").click();
    await seconds(3);
    await keep(light.page, "datasets");
    expect([...wrong, ...light.wrong]).toEqual([]);
  } finally {
    sending.kill("SIGKILL");
  }
});
