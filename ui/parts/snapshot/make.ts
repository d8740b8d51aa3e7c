// Makes a snapshot: the worksheet, and what the other views show of its time.

import { address, bytes, type Params, say, Trouble } from "../../data/client";
import { binaryType, endOf, fromBinary } from "../../data/columns";
import { type Extent, type Reply, SnapshotMaker } from "../../data/snapshot";
import type { View } from "../../state/place";
import { keepFindings, keepNow, keepProfile } from "./views";

/** A graph of a snapshot. */
export interface Graph {
  sentence: string;
  /** Milliseconds before, of the earlier rows; 0: there are none. */
  earlier: number;
}

/** The time of a snapshot, which does not follow the clock, and how fine its graphs are. */
export interface When {
  from: number;
  to: number;
  columns: number;
  top: number;
  host: string;
  /** With the events that recorded statistics show. */
  events: boolean;
}

const json = "application/json";

/**
 * Asks for everything that a worksheet shows of a time, and for the other views, as far as there is
 * space; returns it as a file. profile is the chosen one; "": that of the whole time.
 */
export async function makeSnapshot(
  graphs: readonly Graph[],
  when: When,
  profile: string,
  about: { version: string; host: string; at: number; place: string },
): Promise<string> {
  const maker = new SnapshotMaker();
  await keepSheet(graphs, when, async (path, params, accept) => {
    const reply = await asked(path, params, accept);
    maker.keep(reply);
    return reply.body;
  });
  const extent = await keepViews(when, profile, maker);
  const file = async (name: string): Promise<string> => {
    const answer = await fetch(name, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
    return answer.text();
  };
  return maker.file(about, extent, await file("./page.js"), await file("./page.css"));
}

async function asked(path: string, params: Params, accept: string): Promise<Reply> {
  const answer = await bytes(path, params, accept);
  const type = answer.headers.get("Content-Type") ?? accept;
  return { address: address(path, params), type, body: await answer.arrayBuffer() };
}

/** The answers of a worksheet: one that can't be had is the end. */
async function keepSheet(
  graphs: readonly Graph[],
  when: When,
  keep: (path: string, params: Params, accept: string) => Promise<ArrayBuffer>,
): Promise<void> {
  await keep("health", {}, json);
  await keep("catalogue", {}, json);
  const from = String(Math.round(when.from));
  const to = String(Math.round(when.to));
  const host = when.host === "" ? undefined : when.host;
  const events = when.events ? "1" : undefined;
  if (!host) await keep("notes", { from, to, events }, json);
  for (const g of graphs) {
    const { top, columns } = when;
    const params = { q: g.sentence, from, to, columns, top, host };
    const a = fromBinary(await keep("ask", params, binaryType));
    if (g.earlier === 0) continue;
    const before = { from: a.start - g.earlier, to: endOf(a) - g.earlier, step: a.step };
    await keep("ask", { q: g.sentence, ...before, top, host }, binaryType);
    if (!host)
      await keep("notes", { from: String(before.from), to: String(Math.round(endOf(a))) }, json);
  }
}

/** The other views, each whole or not at all; returns what there is. */
async function keepViews(when: When, profile: string, maker: SnapshotMaker): Promise<Extent> {
  const running = "it shows the running server";
  const absent: Record<string, string> = { datasets: running, trace: running, hosts: running };
  const extent: Extent = { absent, profile: "" };
  const views: [View, (replies: Reply[]) => Promise<void>][] = [
    ["now", (r) => keepNow(when, keeper(r))],
    ["findings", (r) => keepFindings(when, keeper(r))],
    [
      "profile",
      async (r) => {
        const put = (path: string, params: Params, type: string, body: ArrayBuffer) =>
          void r.push({ address: address(path, params), type, body });
        extent.profile = await keepProfile(when, profile, keeper(r), put);
      },
    ],
  ];
  for (const [view, ask] of views) {
    if (when.host !== "") {
      absent[view] = "the graphs are of a host of the engine";
      continue;
    }
    const replies: Reply[] = [];
    try {
      await ask(replies);
      maker.keep(...replies);
    } catch (e) {
      absent[view] = say(e);
      if (view === "profile") extent.profile = "";
    }
  }
  return extent;
}

/** Asks, and keeps answers and refusals in a list. What ends all requests is thrown. */
function keeper(replies: Reply[]) {
  return async (path: string, params: Params, accept: string): Promise<ArrayBuffer | null> => {
    try {
      const reply = await asked(path, params, accept);
      replies.push(reply);
      return reply.body;
    } catch (e) {
      if (!(e instanceof Trouble) || ![400, 403, 404, 413, 501].includes(e.status)) throw e;
      const { message, code, hint, status } = e;
      const body = new TextEncoder().encode(JSON.stringify({ error: { message, code, hint } }));
      replies.push({ address: address(path, params), type: json, body: body.buffer, status });
      return null;
    }
  };
}
