import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, Eyes, fits, lacks, picture, Served, until } from "./stage";

/** A web server's profile: 4,000 samples, of which the lookup in the kernel has 1,200 and is called from two places. */
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
    out[name] = (await row.locator("td.num").allInnerTexts()).map((t) => t.replaceAll("\u202f", " ").trim());
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

  it("draws a file that is dropped, and tells the same in the table", { timeout: 60_000 }, async () => {
    for (const theme of ["dark", "light"] as const) {
      const { page, context, wrong } = await eyes.at(served, "#profile", { theme });
      await drop(page, "nginx.folded", folded);
      await page.waitForSelector(".twin tbody tr");
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
});
