import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, load, picture, Served, until } from "./stage";

/**
 * A web server's profile: 4,000 samples, of which the lookup in the kernel has 1,200 and is called
 * from two places.
 */
const folded = `nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_epoll_process_events;epoll_wait_[k];ep_poll_[k];schedule_[k] 140
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_handler;ngx_output_chain;writev_[k];tcp_sendmsg_[k];tcp_push_[k];tcp_write_xmit_[k];ip_queue_xmit_[k];__ip_finish_output_[k];dev_queue_xmit_[k] 460
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_handler;ngx_output_chain;writev_[k];tcp_sendmsg_[k];tcp_push_[k];tcp_write_xmit_[k];ip_queue_xmit_[k];fib_lookup_[k] 300
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_handler;ngx_output_chain;SSL_write;aes_gcm_enc_update 420
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_parse_header_line 180
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_process_request_headers;ngx_hash_find 120
nginx;main;ngx_worker_process_cycle;ngx_process_events;ngx_http_process_request;ngx_http_process_request_headers;ngx_strncasecmp_[i] 60
nginx;main;ngx_worker_process_cycle;ngx_event_accept;accept4_[k];inet_csk_accept_[k] 90
swapper;do_idle_[k];cpuidle_enter_[k] 400
ksoftirqd/1;run_ksoftirqd_[k];net_rx_action_[k];tcp_v4_rcv_[k];__inet_lookup_established_[k] 200
ksoftirqd/1;run_ksoftirqd_[k];net_rx_action_[k];tcp_v4_rcv_[k];fib_lookup_[k] 900
ksoftirqd/1;run_ksoftirqd_[k];net_rx_action_[k];napi_gro_receive_[k] 110
node;uv_run;Builtins_JSEntry_[j];handleRequest_[j];JSON.parse_[j] 310
node;uv_run;Builtins_JSEntry_[j];handleRequest_[j];render_[j] 220
node;uv_run;Builtins_JSEntry_[j];handleRequest_[j];render_[j];escapeHtml_[j] 90
`;

/** Drops a file on the page, as somebody does with the mouse. */
async function drop(page: Page, name: string, text: string): Promise<void> {
  const data = await page.evaluateHandle(
    ([n, t]) => {
      const d = new DataTransfer();
      d.items.add(new File([t!], n!));
      return d;
    },
    [name, text],
  );
  await page.dispatchEvent("main", "dragover", { dataTransfer: data });
  await page.dispatchEvent("main", "drop", { dataTransfer: data });
}

/** The functions of the table, with what they have in themselves and with what they call. */
async function functions(page: Page): Promise<Record<string, string[]>> {
  const out: Record<string, string[]> = {};
  for (const row of await page.locator(".twin tbody tr").all()) {
    const name = (await row.locator("th").innerText()).trim();
    out[name] = (await row.locator("td.num").allInnerTexts()).map((t) =>
      t.replaceAll("\u202f", " ").trim(),
    );
  }
  return out;
}

describe.skipIf(lacks !== "")(`profile${lacks ? ` (${lacks})` : ""}`, () => {
  let served: Served;
  let eyes: Eyes;
  beforeAll(async () => {
    served = await Served.start();
    eyes = await Eyes.open();
  }, 60_000);
  afterAll(async () => {
    await eyes?.close();
    await served?.end();
  }, 30_000);

  it("draws a file that is dropped, and shows the same numbers in the table", {
    timeout: 90_000,
  }, async () => {
    for (const theme of ["dark", "light"] as const) {
      const { page, context, wrong } = await eyes.at(served, "#profile", { theme });
      await drop(page, "nginx.folded", folded);
      await page.waitForSelector("[data-chosen] .twin tbody tr");
      await until("its name in the address", async () => page.url().includes("p="));
      const f = await functions(page);
      expect(f["fib_lookup_[k]"]).toEqual(["1200", "30.00 %", "1200", "30.00 %"]);
      expect(f.ngx_process_events).toEqual(["0", "0 %", "1680", "42.00 %"]);
      await picture(page, `profile-${theme}`);
      await fits(page);
      await accessible(page);

      expect(wrong).toEqual([]);
      await context.close();
    }
  });

  it("zooms, searches, and keeps all of it in the address", { timeout: 60_000 }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile");
    await drop(page, "nginx.folded", folded);
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    // Recorded samples have a canvas of their own above it.
    const canvas = page.locator(".graph canvas").first();
    const { width } = (await canvas.boundingBox())!;
    // ksoftirqd/1 has the left 1,210 of 4,000, in the second row; names are shown before the click.
    await until("what is pointed at", async () => {
      await canvas.hover({ position: { x: width * 0.1, y: 27 } });
      return (await page.locator(".about").innerText()).includes("ksoftirqd/1");
    });
    expect((await page.locator(".about").innerText()).replaceAll("\u202f", " ")).toContain(
      "1210 samples, 30.25 %, of it 0",
    );
    await canvas.click({ position: { x: width * 0.1, y: 27 } });
    await until("the way to it", async () =>
      (await page.locator(".trail").innerText()).includes("ksoftirqd/1"),
    );
    await page.keyboard.press("/");
    await page.keyboard.type("fib_lookup");
    await until("the share that matched", async () =>
      (await page.locator(".tools").innerText()).includes("30.00 % matched"),
    );
    await page.waitForTimeout(400);
    await picture(page, "profile-search");
    const there = page.url();
    expect(there).toMatch(/at=\w+/);
    expect(there).toContain("find=fib_lookup");
    await page.goto("about:blank");
    await page.goto(there);
    await until(
      "the same again",
      async () =>
        (await page.locator(".trail").count()) > 0 &&
        (await page.locator(".trail").innerText()).includes("ksoftirqd/1"),
    );
    expect(await page.getByLabel("search functions").inputValue()).toBe("fib_lookup");
    await page.keyboard.press("0");
    await until(
      "all of it",
      async () => !(await page.locator(".trail").innerText()).includes("ksoftirqd/1"),
    );
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("draws the widest calls of a large profile first, which changes nothing in the picture, and asks once for each", {
    timeout: 60_000,
  }, async () => {
    const lines = Array.from(
      { length: 60_000 },
      (_, i) => `main;${["left", "right"][i % 2]};f${String(i % 997).padStart(3, "0")};g${i};h 1`,
    );
    const { page, context, wrong } = await eyes.at(served, "#profile", { width: 1400 });
    const asked: string[] = [];
    page.on("request", (r) => {
      const of = new URL(r.url()).searchParams;
      // A range of time is the recorded samples with which the view opens.
      if (r.url().includes("/api/profile?") && !of.get("id")?.includes(".."))
        asked.push(of.get("sketch") ?? "whole");
    });
    // The whole profile is held back until the sketch was checked.
    let go = () => {};
    const wait = new Promise<void>((done) => {
      go = done;
    });
    await page.route(/api\/profile\?(?!.*sketch)/, async (r) => {
      await wait;
      await r.continue();
    });
    await drop(page, "large.folded", `${lines.join("\n")}\nmain;middle;work 90000\n`);
    await until("the sketch", async () =>
      (await page.locator(".about").allInnerTexts()).join().includes("the widest of them first"),
    );
    const canvas = page.locator(".graph canvas").first();
    await page.waitForTimeout(300);
    const pixels = () => canvas.evaluate((c: HTMLCanvasElement) => c.toDataURL());
    const rough = await pixels();
    expect(await page.locator(".twin").count(), "a table of a sketch").toBe(0);
    go();
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    await page.waitForTimeout(300);
    expect((await page.locator(".about").innerText()).replaceAll("\u202f", "")).toContain(
      "121999 calls",
    );
    expect(await pixels()).toBe(rough);
    const { width } = (await canvas.boundingBox())!;
    await canvas.click({ position: { x: width * 0.1, y: 45 } });
    await until("the way to it", async () =>
      (await page.locator(".trail").innerText()).includes("left"),
    );
    await page.keyboard.press("+");
    await page.waitForTimeout(500);
    expect(asked).toEqual(["1", "whole"]);
    await picture(page, "profile-large");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("goes by the keyboard alone: isolates, leaves out, callers and callees", {
    timeout: 60_000,
  }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile", {
      width: 1400,
      height: 1000,
    });
    await drop(page, "nginx.folded", folded);
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    await page.keyboard.press("ArrowDown"); // the root
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"])
      await page.keyboard.press(key);
    await until("the widest calls", async () =>
      (await page.locator(".about").innerText()).includes("ngx_http_process_request"),
    );
    await page.keyboard.press("x");
    await until("it is left out", async () =>
      (await page.locator(".tools").innerText()).includes("without ngx_http_process_request"),
    );
    expect((await page.locator(".trail").innerText()).replaceAll("\u202f", " ")).toContain(
      "all, 2460 samples",
    );
    await page.goBack();
    await page.getByRole("button", { name: "fib_lookup_[k]", exact: true }).click();
    await page.waitForSelector("section[aria-label^='callers and callees']");
    await page.waitForTimeout(400);
    await accessible(page);
    await picture(page, "profile-sandwich");
    expect(
      (await page.locator("section[aria-label^='callers and callees']").innerText()).replaceAll(
        "\u202f",
        " ",
      ),
    ).toContain("1200 samples");
    await page.getByRole("button", { name: "group by module" }).click();
    await page.getByRole("button", { name: "root at bottom" }).click();
    await page.waitForTimeout(400);
    await picture(page, "profile-up");
    expect(wrong).toEqual([]);
    await context.close();
  });

  it("compares two profiles, ranked by what explains the difference", {
    timeout: 60_000,
  }, async () => {
    for (const theme of ["dark", "light"] as const) {
      const { page, context, wrong } = await eyes.at(served, "#profile", { theme });
      await drop(
        page,
        "short chains.folded",
        folded
          .replace("fib_lookup_[k] 900", "fib_lookup_[k] 60")
          .replace("fib_lookup_[k] 300", "fib_lookup_[k] 20"),
      );
      await page.waitForSelector("[data-chosen] .twin tbody tr");
      await page.keyboard.press("[");
      await drop(page, "long chains.folded", folded);
      await page.waitForSelector(".norm");
      expect(await page.locator(".norm").innerText()).toContain(
        "Normalised per sample: each profile is 100%, before 2,880 samples, after 4,000 samples.",
      );
      const first = await page.locator(".twin tbody tr").first().innerText();
      expect(first).toContain("fib_lookup_[k]");
      expect(first).toContain("+100 %");
      await page.waitForTimeout(400);
      await fits(page);
      await accessible(page);
      await picture(page, `profile-compare-${theme}`);
      expect(page.url()).toMatch(/a=\w+/);
      expect(wrong).toEqual([]);
      await context.close();
    }
  });

  it("says what is wrong with a file", { timeout: 60_000 }, async () => {
    const { page, context, wrong } = await eyes.at(served, "#profile");
    await drop(page, "notes.txt", "these are no stacks\nat all\n");
    await until("why", async () => (await page.locator("[role=alert]").count()) > 0);
    expect(await page.locator("[role=alert]").innerText()).toContain(
      "notes.txt: 1: no known format of stacks",
    );
    await drop(
      page,
      "evil.folded",
      "<img src=x onerror=alert(1)>;</script><script>alert(2)</script> 3\n",
    );
    await page.waitForSelector("[data-chosen] .twin tbody tr");
    expect(await page.locator(".twin").innerText()).toContain("</script><script>alert(2)</script>");
    expect(wrong.filter((w) => !w.includes("400"))).toEqual([]);
    await context.close();
  });

  it.skipIf(process.getuid?.() !== 0)(
    "takes a profile of this machine now (needs: root)",
    { timeout: 120_000 },
    async () => {
      const stop = load(1);
      try {
        const { page, context, wrong } = await eyes.at(served, "#profile");
        await page.getByLabel("for how long").selectOption("3 s");
        await page.getByLabel("samples per second and CPU").selectOption("199 Hz");
        await page.getByRole("button", { name: "take a profile" }).click();
        await until(
          "stacks",
          async () => (await page.locator("[data-chosen] .twin tbody tr").count()) > 3,
          30_000,
        );
        await page.waitForTimeout(400);
        await accessible(page);
        await picture(page, "profile-taken");
        expect(await page.locator(".twin").innerText()).toMatch(/\bsh\b|kernel/);
        expect(await page.locator("main").innerText()).toContain("CPU time meanwhile");
        // The one before of one that is taken after it.
        await page.keyboard.press("[");
        await page.getByRole("button", { name: "take a profile" }).click();
        await until("what differs", async () => (await page.locator(".norm").count()) > 0, 30_000);
        expect(wrong).toEqual([]);
        await context.close();
      } finally {
        stop();
      }
    },
  );

  it.skipIf(process.getuid?.() !== 0)(
    "shows what is recorded, by the second (needs: root)",
    { timeout: 90_000 },
    async () => {
      const stop = load(1);
      try {
        const { page, context, wrong } = await eyes.at(served, "#profile", { height: 1000 });
        const button = page.getByRole("button", { name: "busiest second" });
        await until(
          "seconds",
          async () => (await button.count()) > 0 && (await button.isEnabled()),
        );
        await page.waitForTimeout(6000);
        await page.reload();
        await until(
          "seconds again",
          async () => (await button.count()) > 0 && (await button.isEnabled()),
        );
        await button.click();
        await page.waitForSelector("[data-chosen] .twin tbody tr");
        expect(page.url()).toMatch(/p=\d+\.\.\d+/);
        expect(
          (await functions(page)).sh ?? (await page.locator(".twin").innerText()),
        ).toBeTruthy();
        await page.keyboard.press("[");
        await page.getByRole("button", { name: "all of it" }).click();
        await page.waitForSelector(".norm");
        await page.waitForTimeout(400);
        await fits(page);
        await accessible(page);
        await picture(page, "profile-recorded");
        expect(wrong).toEqual([]);
        await context.close();
      } finally {
        stop();
      }
    },
  );
});
