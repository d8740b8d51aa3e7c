import { spawn } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

const missing = lacks !== "" ? lacks : process.getuid?.() !== 0 ? "needs: root" : "";

interface Scripts {
  scripts: { name: string; state: string; stats: { id: string }[] }[];
}

describe.skipIf(missing !== "")(`trace${missing ? ` (${missing})` : ""}`, () => {
  let served: Served;
  let eyes: Eyes;
  // Somebody who reads, so that there is something to count.
  const reader =
    missing === ""
      ? spawn("sh", ["-c", "while :; do cat /etc/hostname /proc/self/status; sleep 0.05; done"], {
          stdio: "ignore",
          detached: true,
        })
      : undefined;
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open();
  }, 60_000);
  afterAll(async () => {
    if (reader?.pid) process.kill(-reader.pid, "SIGKILL");
    await eyes?.close();
    await served?.end();
  }, 30_000);

  it("marks what is wrong at its place, with a hint", { timeout: 60_000 }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#trace");
    const editor = page.getByLabel("D program");
    await editor.fill("syscall::read:return\n/argo > 0/\n{\n\t@[execname] = quantise(arg0);\n}\n");
    await editor.press("Control+Enter");
    await page.waitForSelector("#trace-wrong p");
    expect(await page.locator(".editor mark").allTextContents()).toEqual([
      "argo",
      "quantise(arg0)",
    ]);
    const said = await page.locator("#trace-wrong").innerText();
    expect(said).toContain("2:2");
    expect(said).toContain("did you mean arg0?");
    await accessible(page);
    await picture(page, "trace-wrong");
    expect(wrong.filter((w) => !w.includes("400"))).toEqual([]);
    await context.close();
  });

  it("completes probes, arguments, fields and variables, by the keyboard alone", {
    timeout: 120_000,
  }, async () => {
    await served.clear();
    const { page, context, wrong } = await eyes.at(served, "#trace");
    const editor = page.getByLabel("D program");
    const options = page.getByRole("listbox", { name: "what may be written" }).getByRole("option");
    const offered = (text: string) =>
      until(
        text,
        async () => (await options.allInnerTexts()).some((t) => t.startsWith(text)),
        60_000,
      );
    await editor.pressSequentially("sysc");
    await offered("syscall:");
    await editor.press("ArrowDown");
    await editor.press("Tab");
    await offered(":"); // any module
    await editor.pressSequentially(":openat:r");
    await offered("return");
    await editor.press("ArrowDown");
    await editor.press("Enter");
    expect(await editor.inputValue()).toBe("syscall::openat:return");
    await editor.pressSequentially(" { @opened[exec");
    await offered("execname");
    await accessible(page);
    await picture(page, "trace-complete");
    await editor.press("Escape");
    await editor.fill("sdt:net::netif_receive_skb { @[args[0]->dev->mt");
    await editor.press("Control+Space");
    await offered("mtu");
    await picture(page, "trace-fields");
    await editor.press("Escape");
    // What is wrong is marked before anybody runs it: all of it.
    await editor.fill("BEGIN { x = execnam; }\nEND { y = nothere; }");
    await editor.press("End");
    await editor.pressSequentially(" ");
    await until("all mistakes", async () => (await page.locator("#trace-wrong p").count()) === 2);
    expect(await page.locator("#trace-wrong").innerText()).toContain("did you mean execname?");
    expect((await served.get<Scripts>("scripts")).scripts).toEqual([]);
    await editor.fill("BEGIN { exit(0); }");
    await editor.press("End");
    await editor.pressSequentially(" ");
    await until("no mistake", async () => (await page.locator("#trace-wrong p").count()) === 0);
    expect(wrong.filter((w) => !w.includes("400"))).toEqual([]);
    await context.close();
  });

  it("finds probes with their arguments, writes a clause, and keeps what was run", {
    timeout: 120_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#trace", { width: 390 });
    await page.getByRole("button", { name: "probes …" }).click();
    await page.getByLabel("search probes").fill("netif_receive_skb");
    const probe = page.getByRole("button", { name: /^sdt:net::netif_receive_skb$/ });
    await probe.waitFor({ timeout: 60_000 });
    expect(await page.locator("dialog").innerText()).toContain("args[0] struct sk_buff *skb");
    await accessible(page);
    await picture(page, "trace-probes");
    await probe.click();
    const editor = page.getByLabel("D program");
    expect(await editor.inputValue()).toContain("sdt:net::netif_receive_skb\n{");
    await fits(page);
    await editor.fill("BEGIN { exit(0); }");
    await editor.press("Control+Enter");
    const history = page.getByLabel("history");
    await history.waitFor({ timeout: 60_000 });
    await editor.fill("");
    await history.selectOption("0");
    expect(await editor.inputValue()).toBe("BEGIN { exit(0); }");
    for (const s of (await served.get<{ scripts: { name: string }[] }>("scripts")).scripts) {
      await page.getByRole("button", { name: `remove ${s.name}` }).click();
      await page.getByRole("button", { name: "remove and delete its data" }).click();
    }
    await until(
      "it is gone",
      async () => (await served.get<Scripts>("scripts")).scripts.length === 0,
    );
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("runs a program and shows what it counts, its distribution and what it prints", {
    timeout: 120_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#trace");
    await page
      .getByLabel("D program")
      .fill(
        'syscall::read:return /arg0 > 0/ { @bytes[execname] = sum(arg0); @size[execname] = quantize(arg0); } tick-1s { printf("a second\\n"); }',
      );
    await page.getByLabel("name").fill("reads");
    await page.getByLabel("budget").selectOption("0.2");
    await page.getByRole("button", { name: "run", exact: true }).click();
    await until(
      "the rows of both aggregations",
      async () =>
        (await page
          .locator("section.aggregation tbody th[scope=row], section.aggregation td.key")
          .count()) >= 2 && (await page.locator(".shape .bar").count()) > 1,
    );
    await until(
      "what it prints",
      async () =>
        (await page.locator(".output").count()) > 0 &&
        (await page.locator(".output").innerText()).includes("a second"),
    );
    expect(
      await page
        .locator("section.aggregation", { hasText: "trace.reads.bytes" })
        .first()
        .innerText(),
    ).toContain("cat");
    // Reads of a few bytes and of many kilobytes: each bucket shows its start.
    const begin = await page.locator(".shape tbody th").allInnerTexts();
    expect(begin.filter((t, i) => t.startsWith("<") || begin.indexOf(t) !== i)).toEqual([]);
    await fits(page);
    await accessible(page);
    await picture(page, "trace-dark");
    await page.keyboard.press("Escape");
    await context.close();
    expect(wrong).toEqual([]);

    const light = await eyes.at(served, "#trace?s=reads", { theme: "light", width: 1000 });
    await until(
      "the rows again",
      async () => (await light.page.locator(".shape .bar").count()) > 1,
    );
    await fits(light.page);
    await accessible(light.page);
    await picture(light.page, "trace-light");
    expect(light.wrong).toEqual([]);
    await light.context.close();
  });

  it("shows a script's statistics in the worksheet, and its text among the datasets", {
    timeout: 120_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(
      served,
      "#analytics?q=trace.reads.size+by+execname&q=trace.reads.bytes",
    );
    await until("a graph's rows", async () =>
      (await page.locator("main").innerText()).includes("cat"),
    );
    await picture(page, "trace-analytics");
    expect(wrong).toEqual([]);
    await context.close();
    const sets = await eyes.at(served, "#datasets?find=trace.reads");
    await sets.page.getByLabel("the D text of trace.reads.bytes by execname").click();
    expect(await sets.page.locator("dialog pre").innerText()).toContain("@bytes[execname]");
    await accessible(sets.page);
    await picture(sets.page, "trace-datasets");
    expect(sets.wrong).toEqual([]);
    await sets.context.close();
  });

  it("says at length why a script rests, with what can be done about it in sight", {
    timeout: 60_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "");
    await page.route("**/api/scripts", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { scripts: { state: string; why: string }[] };
      const why =
        "stopped: it used 9.56 % of one CPU, more than the budget of 2.00 %; most of it at syscall:vmlinux:read:return, and of the rest some more";
      for (const s of body.scripts) Object.assign(s, { state: "suspended", why });
      await route.fulfill({ response: answer, json: body });
    });
    await page.setViewportSize({ width: 1000, height: 700 });
    await page.goto(`${served.url}#trace`);
    const row = page.locator("tbody tr", { hasText: "reads" });
    await row.waitFor();
    expect(await row.locator("th").innerText()).toMatch(/suspended: it used/);
    const [wide, has] = await page.evaluate(() => [
      document.querySelector("main .scroll")!.scrollWidth,
      document.querySelector("main .scroll")!.clientWidth,
    ]);
    expect(wide).toBeLessThanOrEqual(has!);
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("stops and removes, by the keyboard alone", { timeout: 60_000 }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#trace?s=reads");
    const press = async (name: string) => {
      const b = page.getByRole("button", { name });
      await b.focus();
      await page.keyboard.press("Enter");
    };
    await page.waitForSelector("section.aggregation");
    await press("stop reads");
    await until(
      "it is stopped",
      async () => (await served.get<Scripts>("scripts")).scripts[0]?.state === "stopped",
    );
    await press("remove reads");
    await press("remove it, and keep the datasets");
    await until(
      "it is gone",
      async () => (await served.get<Scripts>("scripts")).scripts.length === 0,
    );
    expect(
      (await served.get<{ stats: { id: string; program?: string }[] }>("catalogue")).stats.find(
        (s) => s.id === "trace.reads.bytes",
      )?.program,
    ).toContain("@bytes");
    expect(wrong).toEqual([]);
    await context.close();
  });
});
