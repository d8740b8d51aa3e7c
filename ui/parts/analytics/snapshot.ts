// Makes the snapshot of a worksheet.

import { address, bytes, type Params } from "../../data/client";
import { binaryType, endOf, fromBinary } from "../../data/columns";
import { SnapshotMaker } from "../../data/snapshot";

/** A graph of a snapshot. */
export interface Graph {
  sentence: string;
  /** Milliseconds before, of the earlier rows; 0: there are none. */
  earlier: number;
}

/**
 * Asks for everything that a worksheet shows of a time, and returns it as a file. The time is
 * whole: it does not follow the clock.
 */
export async function makeSnapshot(
  graphs: readonly Graph[],
  when: { from: number; to: number; columns: number; top: number; host: string },
  about: { version: string; host: string; at: number; place: string },
): Promise<string> {
  const maker = new SnapshotMaker();
  const keep = async (path: string, params: Params, accept: string): Promise<ArrayBuffer> => {
    const answer = await bytes(path, params, accept);
    const body = await answer.arrayBuffer();
    maker.keep(address(path, params), answer.headers.get("Content-Type") ?? accept, body);
    return body;
  };
  const json = "application/json";
  await keep("health", {}, json);
  await keep("catalogue", {}, json);
  const from = String(Math.round(when.from));
  const to = String(Math.round(when.to));
  const host = when.host === "" ? undefined : when.host;
  if (!host) await keep("notes", { from, to }, json);
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
  const file = async (name: string): Promise<string> => {
    const answer = await fetch(name, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
    return answer.text();
  };
  return maker.file(about, await file("./page.js"), await file("./page.css"));
}
