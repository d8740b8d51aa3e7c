// The hosts of an engine, as /api/hosts has them: search, groups and the values of a row. Pure.

/** A number by which hosts are compared. */
export interface Quantity {
  id: string;
  title: string;
  help: string;
  unit: string;
}

export interface HostFinding {
  rule: string;
  kind: string;
  culprit: string;
  severity: string;
  confidence: number | null;
}

/** How a host differs from the others in a quantity. */
export interface Apart {
  quantity: number;
  score: number;
  median: number;
  text: string;
}

export interface Host {
  name: string;
  /** Address of its own server; "": unknown. */
  url: string;
  newest_ms: number;
  reports: boolean;
  labels: Record<string, string>;
  /** Per quantity; null: unknown. */
  values: (number | null)[];
  findings: HostFinding[];
  apart: Apart[];
}

export interface Fleet {
  at_ms: number;
  over_ms: number;
  reporting: number;
  notes: string[];
  quantities: Quantity[];
  /** In the order in which they are shown. */
  hosts: Host[];
}

/** The values of some hosts over time: per host, per quantity, per step. */
export interface Curves {
  start_ms: number;
  step_ms: number;
  values: (number | null)[][][];
}

/** Hosts with the same value of a label. */
export interface Group {
  /** The value; "": the hosts lack the label. */
  name: string;
  hosts: Host[];
  reporting: number;
  findings: number;
}

/** The hosts that have each of the words in their name, a label, a finding or a difference. */
export function findHosts(hosts: readonly Host[], words: string): Host[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return [...hosts];
  return hosts.filter((h) => {
    const text = [
      h.name,
      ...Object.entries(h.labels).map(([k, v]) => `${k}=${v}`),
      ...h.findings.map((f) => `${f.severity} ${f.rule} ${f.culprit}`),
      ...h.apart.map((a) => a.text),
      h.reports ? "" : "silent",
    ]
      .join("\n")
      .toLowerCase();
    return wanted.every((w) => text.includes(w));
  });
}

/** The labels by which hosts can be grouped: those of which two hosts have different values. */
export function groupLabels(hosts: readonly Host[]): string[] {
  const names = new Set(hosts.flatMap((h) => Object.keys(h.labels)));
  return [...names]
    .filter((n) => new Set(hosts.map((h) => h.labels[n] ?? "")).size > 1)
    .sort((a, b) => (a < b ? -1 : 1));
}

/** The groups of a label, in the order of their first hosts; one group without a label. */
export function groupHosts(hosts: readonly Host[], label: string): Group[] {
  const groups = new Map<string, Group>();
  for (const h of hosts) {
    const name = label === "" ? "" : (h.labels[label] ?? "");
    let g = groups.get(name);
    if (!g) {
      g = { name, hosts: [], reporting: 0, findings: 0 };
      groups.set(name, g);
    }
    g.hosts.push(h);
    if (h.reports) g.reporting++;
    g.findings += h.findings.length;
  }
  return [...groups.values()];
}

/** Numbers with NaN for what is unknown. */
export function numbers(values: readonly (number | null)[]): Float64Array {
  return Float64Array.from(values, (v) => v ?? Number.NaN);
}

/** The address of a view of the host's own server; "": unknown. Only http and https lead there. */
export function addressOf(host: Host, fragment: string): string {
  return /^https?:\/\//.test(host.url) ? host.url + fragment : "";
}

/** The greatest of the known values of several curves; NaN: there is none above 0. */
export function greatest(curves: readonly ArrayLike<number>[]): number {
  let top = 0;
  for (const c of curves) for (let i = 0; i < c.length; i++) if (c[i]! > top) top = c[i]!;
  return top > 0 ? top : Number.NaN;
}
