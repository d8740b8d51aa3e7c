// The title of a graph in words: "Network interfaces: bytes per second by namespace, interface".

import type { Stat } from "./api";
import type { Sentence } from "./drill";

const fieldWords: Record<string, string> = {
  netns: "namespace",
  pid: "process ID",
  tid: "thread ID",
  cpu: "CPU",
  peerport: "peer's port",
  localport: "local port",
  local: "local address",
  cgroup: "control group",
  syscall: "system call",
  irq: "interrupt",
};

/** A field in words; a device of the network is an interface. */
export const fieldName = (stat: Pick<Stat, "id">, field: string): string =>
  field === "device" && stat.id.startsWith("net.") ? "interface" : (fieldWords[field] ?? field);

/** A statistic in words. */
export function statName(stat: Pick<Stat, "id" | "words" | "kind" | "rate_unit">): string {
  const [subsystem = stat.id, thing = "", quantity = ""] = stat.words ?? [];
  const rate = stat.kind === "delta" && stat.rate_unit.endsWith("/s") ? " per second" : "";
  const head = thing === "" ? subsystem : `${subsystem} ${thing}`;
  return quantity === "" ? head + rate : `${head}: ${quantity}${rate}`;
}

export function titleOf(stat: Stat, q: Sentence): string {
  const by = q.by.map((f) => fieldName(stat, f)).join(", ");
  return by === "" ? statName(stat) : `${statName(stat)} by ${by}`;
}

/** A line of the catalogue. */
export interface Line {
  stat: Stat;
  subsystem: string;
  thing: string;
  quantity: string;
}

/** The catalogue in groups: subsystem, thing, quantities; those that have all the words. */
export function tree(
  stats: readonly Stat[],
  want: string,
): { name: string; things: { name: string; lines: Line[] }[] }[] {
  const words = want
    .toLowerCase()
    .split(/\s+/)
    .filter((w) => w !== "");
  const out: { name: string; things: { name: string; lines: Line[] }[] }[] = [];
  for (const stat of stats) {
    const [subsystem = "", thing = "", quantity = ""] = stat.words ?? [stat.id];
    const fields = (stat.fields ?? []).map((f) => `${f.name} ${fieldName(stat, f.name)}`);
    const text = [stat.id, subsystem, thing, quantity, stat.help, ...fields]
      .join(" ")
      .toLowerCase();
    if (!words.every((w) => text.includes(w))) continue;
    let group = out.find((g) => g.name === subsystem);
    if (!group) {
      group = { name: subsystem, things: [] };
      out.push(group);
    }
    let part = group.things.find((t) => t.name === thing);
    if (!part) {
      part = { name: thing, lines: [] };
      group.things.push(part);
    }
    part.lines.push({ stat, subsystem, thing, quantity });
  }
  return out.sort((a, b) => (a.name < b.name ? -1 : 1));
}
