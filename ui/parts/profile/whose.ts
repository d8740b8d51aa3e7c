// Whose time a profile shows: of all threads, of a process, of all processes of a name, of a thread
// or of a control group. The address and the server have it as text: pid:1234, process:nginx,
// thread:77, cgroup:/system.slice; "" of all.

import { bytes } from "../../data/client";
import { binaryType, fromBinary } from "../../data/columns";
import { mean } from "../../data/series";

export interface Choice {
  whose: string;
  /** As the list shows it. */
  text: string;
  help: string;
}

/** What the request that samples has of it. */
export function selection(whose: string): Record<string, (string | number)[]> {
  const at = whose.indexOf(":");
  const value = whose.slice(at + 1);
  switch (whose.slice(0, Math.max(0, at))) {
    case "pid":
      return { pids: [Number(value)] };
    case "thread":
      return { threads: [Number(value)] };
    case "process":
      return { processes: [value] };
    case "cgroup":
      return { cgroups: [value] };
    default:
      return {};
  }
}

/** In words. */
export function words(whose: string, known: readonly Choice[] = []): string {
  if (whose === "") return "the whole machine";
  const found = known.find((c) => c.whose === whose);
  if (found) return found.text;
  const [field = "", ...value] = whose.split(":");
  return `${field === "pid" ? "process" : field} ${value.join(":")}`;
}

/** What a typed text may mean beside what the list has. */
export function typed(text: string): Choice[] {
  const t = text.trim();
  if (t === "") return [];
  if (/^\d{1,9}$/.test(t))
    return [
      { whose: `pid:${t}`, text: `process ${t}`, help: "a process, by its ID" },
      { whose: `thread:${t}`, text: `thread ${t}`, help: "a thread, by its ID" },
    ];
  if (t.startsWith("/")) return [{ whose: `cgroup:${t}`, text: t, help: "control group" }];
  return [{ whose: `process:${t}`, text: t, help: "processes and threads of this name" }];
}

/** Choices that a text is in; those of what was typed come after them. */
export function matching(all: readonly Choice[], text: string, most: number): Choice[] {
  const want = text.trim().toLowerCase();
  const found = all.filter((c) => want === "" || c.text.toLowerCase().includes(want));
  const known = new Set(found.map((c) => c.whose));
  return [...found.slice(0, most), ...typed(text).filter((c) => !known.has(c.whose))];
}

interface Busy {
  key: string[];
  cpu: number;
}

async function rows(query: string, now: number, stop: AbortSignal): Promise<Busy[]> {
  try {
    const params = { q: query, from: now - 30_000, to: now, step: 30_000, top: 300 };
    const a = fromBinary(await (await bytes("ask", params, binaryType, stop)).arrayBuffer());
    return a.series
      .map((s) => ({ key: s.key, cpu: mean(s.values, a.elapsed) }))
      .filter((r) => !Number.isNaN(r.cpu))
      .sort((a, b) => b.cpu - a.cpu);
  } catch {
    return []; // it is not recorded: what is typed still counts
  }
}

const part = (cpu: number): string =>
  cpu >= 0.0005 ? `, ${(100 * cpu).toFixed(1)} % of a CPU` : "";

/** What can be chosen now: the busiest first, names of several processes before these. */
export async function choices(now: number, stop: AbortSignal): Promise<Choice[]> {
  const [processes, groups] = await Promise.all([
    rows("process.cpu by process,pid", now, stop),
    rows("cgroup.cpu by cgroup", now, stop),
  ]);
  const names = new Map<string, { count: number; cpu: number }>();
  for (const { key, cpu } of processes) {
    const of = names.get(key[0]!) ?? { count: 0, cpu: 0 };
    names.set(key[0]!, { count: of.count + 1, cpu: of.cpu + cpu });
  }
  const out: Choice[] = [{ whose: "", text: "the whole machine", help: "all threads" }];
  const listed = new Set<string>();
  for (const { key, cpu } of processes) {
    const [name = "", pid = ""] = key;
    const of = names.get(name)!;
    if (of.count > 1 && name !== "" && !listed.has(name)) {
      listed.add(name);
      out.push({
        whose: `process:${name}`,
        text: name,
        help: `${of.count} processes${part(of.cpu)}`,
      });
    }
    out.push({ whose: `pid:${pid}`, text: `${name} ${pid}`, help: `process${part(cpu)}` });
  }
  for (const { key, cpu } of groups)
    if (key[0] && key[0] !== "/")
      out.push({
        whose: `cgroup:${key[0]}`,
        text: key[0],
        help: `control group${part(cpu)}`,
      });
  // A process that was renamed has two rows.
  const seen = new Set<string>();
  return out.filter((c) => !seen.has(c.whose) && seen.add(c.whose));
}
