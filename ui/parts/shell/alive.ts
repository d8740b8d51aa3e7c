// What Ctrl-K finds beside views and statistics: what is alive on the machine, and what the server
// keeps.

import type { Dataset, Dated, Script, Worksheet } from "../../data/api";
import { bytes, get } from "../../data/client";
import { binaryType, fromBinary } from "../../data/columns";
import { print } from "../../data/drill";
import { day } from "../../state/time";

/** A thing, and the queries that show it. */
export interface Found {
  text: string;
  help: string;
  queries?: string[];
  dataset?: string;
  script?: string;
  worksheet?: Worksheet;
  finding?: { key: string; at: number };
}

/** The most rows of one kind. */
const most = 300;

/** Rows of the last seconds, as their keys; none of what is not recorded. */
async function rows(sentence: string, stop: AbortSignal): Promise<string[][]> {
  try {
    const params = { q: sentence, from: "-30s", to: "now", step: 30_000, top: most };
    const a = fromBinary(await (await bytes("ask", params, binaryType, stop)).arrayBuffer());
    return a.series.filter((s) => !s.values.every(Number.isNaN)).map((s) => s.key);
  } catch {
    return [];
  }
}

async function maybe<T>(
  path: string,
  params: Record<string, string>,
  stop: AbortSignal,
): Promise<Partial<T>> {
  try {
    return await get<T>(path, params, stop);
  } catch {
    return {};
  }
}

const where = (stat: string, by: string[], field: string, value: string): string =>
  print({ stat, by, where: [{ field, op: "=", values: [value] }] });

function once(list: readonly string[]): string[] {
  return [...new Set(list)].filter((v) => v !== "");
}

/** Everything that is there now, in parallel; what can't be had is left out. */
export async function alive(now: number, stop: AbortSignal): Promise<Found[]> {
  const [cpu, rss, peers, groups, devices, sets, scripts, sheets, past] = await Promise.all([
    rows("process.cpu by process,pid", stop),
    rows("process.rss by process,pid", stop), // idle ones too
    rows("tcp.flow.bytes by peer", stop),
    rows("cgroup.cpu by cgroup", stop),
    rows("net.device.bytes by netns,device", stop),
    maybe<{ datasets: Dataset[] }>("datasets", {}, stop),
    maybe<{ scripts: Script[] }>("scripts", {}, stop),
    maybe<{ worksheets: Worksheet[] }>("worksheets", {}, stop),
    maybe<{ reports: Dated[] | null }>(
      "findings",
      { from: String(now - day), to: String(now) },
      stop,
    ),
  ]);
  const found: Found[] = [];
  const processes = new Map([...rss, ...cpu].map(([name = "", pid = ""]) => [pid, name]));
  for (const [pid, name] of processes)
    found.push({
      text: `${name} ${pid}`,
      help: "process",
      queries: [
        where("process.cpu", ["mode"], "pid", pid),
        where("process.rss", [], "pid", pid),
        where("tcp.flow.bytes", ["peer", "direction"], "pid", pid),
      ],
    });
  for (const a of once(peers.map((k) => k[0] ?? "")))
    found.push({
      text: a,
      help: "address",
      queries: [
        where("tcp.flow.bytes", ["process", "direction"], "peer", a),
        where("tcp.flow.delivery", ["localport"], "peer", a),
      ],
    });
  for (const g of once(groups.map((k) => k[0] ?? "")))
    found.push({
      text: g,
      help: "control group",
      queries: [
        where("cgroup.cpu", ["mode"], "cgroup", g),
        where("cgroup.memory", ["kind"], "cgroup", g),
      ],
    });
  for (const [netns = "", device = ""] of devices)
    found.push({
      text: netns === "" ? device : `${netns} ${device}`,
      help: "interface",
      queries: ["net.device.bytes", "net.device.drops"].map((stat) =>
        print({
          stat,
          by: ["direction"],
          where: [
            { field: "netns", op: "=", values: [netns] },
            { field: "device", op: "=", values: [device] },
          ],
        }),
      ),
    });
  for (const d of sets.datasets ?? [])
    found.push({ text: d.sentence, help: `dataset, ${d.state}`, dataset: d.sentence });
  for (const s of scripts.scripts ?? [])
    found.push({ text: s.name, help: `script, ${s.state}`, script: s.name });
  for (const w of sheets.worksheets ?? [])
    found.push({
      text: w.name,
      help: `worksheet, version ${w.version}${w.who === "" ? "" : `, saved by ${w.who}`}`,
      worksheet: w,
    });
  const seen = new Set<string>();
  for (const r of [...(past.reports ?? [])].reverse())
    for (const f of r.report.findings ?? []) {
      if (seen.has(f.claim)) continue;
      seen.add(f.claim);
      found.push({
        text: f.claim,
        help: "finding of the last day",
        finding: { key: f.claim, at: r.at_ms },
      });
    }
  return found;
}
