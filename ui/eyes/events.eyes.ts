import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

/** A control group in which memory is short; null: there can be none. */
function shortOfMemory(): { join: string; remove: () => void } | null {
  const first = existsSync("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const dir = `${first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup"}/eyes-${process.pid}`;
  const remove = (): void => {
    try {
      rmdirSync(dir);
    } catch {
      // It was not made.
    }
  };
  try {
    mkdirSync(dir);
    writeFileSync(`${dir}/memory.${first ? "limit_in_bytes" : "max"}`, "8388608");
  } catch {
    remove();
    return null;
  }
  return { join: `${dir}/${first ? "tasks" : "cgroup.procs"}`, remove };
}

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
    expect(await page.locator(`.flag[data-text*="${name}"]`).count()).toBe(0);
    await page.getByRole("button", { name: "events", exact: true }).click();
    await page.locator(`.flag[data-text*="${name}"]`).first().waitFor();
    expect(page.url()).toContain("events=1");
    // What it says is shown without a click: to the mouse and to the keyboard.
    const flag = page.locator(`.flag[data-text*="${name}"]`).first();
    await flag.hover();
    await page.getByRole("tooltip").locator("li").first().waitFor();
    await picture(page, "events-pointed");
    await page.mouse.move(5, 500);
    await until("no words", async () => (await page.getByRole("tooltip").count()) === 0);
    await flag.focus();
    await page.getByRole("tooltip").waitFor();
    await page.keyboard.press("Escape");
    await until("no words", async () => (await page.getByRole("tooltip").count()) === 0);
    await flag.click();
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

  const tried = lacks === "" ? shortOfMemory() : null;
  tried?.remove();
  it.skipIf(tried === null)(
    "are messages of the kernel, before all others (needs: root)",
    {
      timeout: 120_000,
    },
    async () => {
      const short = shortOfMemory()!;
      try {
        await until("the kernel says that it killed a program", async () => {
          const killed = spawn("sh", ["-c", `echo $$ > ${short.join}; exec tail /dev/zero`], {
            stdio: "ignore",
          });
          await new Promise((done) => killed.once("exit", done));
          return until(
            "it",
            async () => /oom-kill: .*Killed process \d+ \(tail\)/.test(await texts("&events=1")),
            15_000,
          ).catch(() => false);
        });
        const { page, wrong } = await eyes.at(
          served,
          "#analytics?last=2m&events=1&q=memory.size+by+kind",
          { theme: "light" },
        );
        const flag = page.locator(".flag.grave", { hasText: "kernel" }).first();
        await flag.waitFor();
        await flag.click();
        await page
          .getByRole("list", { name: "notes of this moment" })
          .getByText(/Killed process \d+ \(tail\)/)
          .first()
          .waitFor();
        await accessible(page);
        await fits(page);
        await picture(page, "events-kernel");
        expect(wrong).toEqual([]);
      } finally {
        short.remove();
      }
    },
  );
});
