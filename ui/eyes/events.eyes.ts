import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

describe.skipIf(lacks !== "")("events on the time axis", () => {
  let served: Served;
  let eyes: Eyes;
  let dir = "";
  let worker: ChildProcess | undefined;

  beforeAll(async () => {
    [served, eyes] = await Promise.all([Served.start(), Eyes.open()]);
    dir = mkdtempSync(join(tmpdir(), "culprit-events-"));
  }, 240_000);

  afterAll(async () => {
    worker?.kill("SIGKILL");
    await served?.end();
    await eyes?.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** What is noted of the last two minutes. */
  const texts = async (events: string): Promise<string> => {
    const { notes } = await served.get<{ notes: { text: string }[] }>(
      `notes?from=-2m&to=now${events}`,
    );
    return notes.map((n) => n.text).join("\n");
  };

  it("are those of a process that starts and ends, when they are asked for", {
    timeout: 240_000,
  }, async () => {
    // Of many that start at once the first by name are named.
    const file = join(dir, "000worker");
    writeFileSync(file, "#!/bin/sh\nwhile :; do :; done\n", { mode: 0o755 });
    await until(
      "a time before it",
      async () => {
        const { elapsed_ms } = await served.get<{ elapsed_ms: number[] }>(
          "ask?q=process.rss&from=-20s&to=now&step=1000",
        );
        return elapsed_ms.filter((ms) => ms > 0).length > 4;
      },
      90_000,
    );
    // On a machine that is too busy seconds are not read, and what happens in many of them is no
    // event: then another process has to do.
    let name = "";
    const noted = async (what: string): Promise<boolean> => {
      const said = new RegExp(`000worker \\(pid ${worker?.pid}\\).* ${what}`);
      return until(what, async () => said.test(await texts("&events=1")), 20_000).catch(
        () => false,
      );
    };
    for (let n = 0; n < 4 && name === ""; n++) {
      worker = spawn(file, { stdio: "ignore" });
      const started = await noted("started");
      worker.kill("SIGKILL");
      if (started && (await noted("ended"))) name = `000worker (pid ${worker.pid})`;
    }
    expect(name).not.toBe("");
    expect(await texts("")).not.toContain(name);

    const { page, wrong } = await eyes.at(served, "#analytics?last=2m&q=cpu.time+by+mode");
    await page.locator('[data-graph="0"][data-state="shown"]').waitFor();
    expect(await page.locator(`.flag[title*="${name}"]`).count()).toBe(0);
    await page.getByRole("button", { name: "events", exact: true }).click();
    await page.locator(`.flag[title*="${name}"]`).first().waitFor();
    expect(page.url()).toContain("events=1");
    await page.locator(`.flag[title*="${name}"]`).first().click();
    await page
      .getByRole("list", { name: "notes of this moment" })
      .getByText(name)
      .first()
      .waitFor();
    await accessible(page);
    await picture(page, "events");
    await page.setViewportSize({ width: 390, height: 844 });
    await fits(page);
    await picture(page, "events-390");
    expect(wrong).toEqual([]);
  });
});
