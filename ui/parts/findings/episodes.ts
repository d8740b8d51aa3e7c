import type { Dated, Finding, Severity } from "../../data/api";
import type { When } from "../../data/ask";
import type { Moments } from "../../state/time";

/** One finding for as long as it was found. */
export interface Episode {
  /** The finding's id and when it began: the same as long as it lasts. */
  key: string;
  /** The finding as it was when it was worst. */
  finding: Finding;
  from: number;
  to: number;
  /** Diagnoses that had it. */
  times: number;
  /** The newest diagnosis has it. */
  lasts: boolean;
}

const weight: Record<Severity, number> = { high: 3, medium: 2, low: 1 };

/**
 * Findings that last are written down each minute, less often where a diagnosis is expensive. After
 * a longer silence than this, a finding lasted only if the server says so.
 */
const apart = 90_000;

/**
 * The episodes of diagnoses (in the order of time), the newest first. A diagnosis covers the time
 * that it looked at. A finding ends with a diagnosis that has it no more, or with a silence. One
 * that comes and goes is one episode until the server withdraws it.
 */
export function episodes(reports: readonly Dated[]): Episode[] {
  const open = new Map<string, Episode>();
  const all: Episode[] = [];
  let before = Number.NaN;
  for (const { at_ms, report } of reports) {
    if (!report) continue;
    const found = report.findings ?? [];
    const lasting = [...found, ...(report.held ?? [])];
    if (at_ms - before > apart)
      for (const [id, e] of open) {
        const f = lasting.find((f) => f.id === id);
        // Its run is older than the silence.
        if (!f?.past || !(Date.parse(f.past.since) < e.to)) open.delete(id);
      }
    before = at_ms;
    for (const id of open.keys()) if (!lasting.some((f) => f.id === id)) open.delete(id);
    for (const f of found) {
      const start = Date.parse(report.start);
      const from = Number.isNaN(start) ? at_ms : start;
      const e = open.get(f.id);
      if (!e) {
        const fresh = {
          key: `${f.id}@${Math.round(from)}`,
          finding: f,
          from,
          to: at_ms,
          times: 1,
          lasts: false,
        };
        open.set(f.id, fresh);
        all.push(fresh);
        continue;
      }
      e.to = at_ms;
      e.times++;
      if (worse(f, e.finding)) e.finding = f;
    }
  }
  const newest = new Set((reports.at(-1)?.report?.findings ?? []).map((f) => f.id));
  for (const [id, e] of open) e.lasts = newest.has(id);
  return all.sort(
    (a, b) =>
      b.to - a.to || weight[b.finding.severity] - weight[a.finding.severity] || b.from - a.from,
  );
}

/**
 * Whether a finding is worse than another: by severity, then by the time that it takes, then by its
 * share. Unknown is less than none.
 */
function worse(a: Finding, b: Finding): boolean {
  const sizes = (f: Finding): number[] => [
    weight[f.severity] ?? 0,
    f.effect ?? -1,
    f.explains ?? -1,
  ];
  const [x, y] = [sizes(a), sizes(b)];
  const i = x.findIndex((v, k) => v !== y[k]);
  return i >= 0 && x[i]! > y[i]!;
}

/** Those that have every word somewhere in what they say. */
export function search(list: readonly Episode[], find: string): Episode[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  return list.filter((e) => {
    const f = e.finding;
    const text = [
      f.id,
      f.claim,
      f.severity,
      ...(f.evidence ?? []).map((x) => `${x.text} ${x.statistic}`),
    ]
      .join(" ")
      .toLowerCase();
    return words.every((w) => text.includes(w));
  });
}

/** A line of the picture: who was found, and when. */
export interface Lane {
  name: string;
  /** The ids of the findings in it. */
  ids: string[];
  episodes: Episode[];
}

/**
 * A lane for each culprit, in the order of the list; more than so many have the last one in common,
 * so that no time looks quiet that was not.
 */
export function lanesOf(list: readonly Episode[], most: number): Lane[] {
  const of = new Map<string, Episode[]>();
  for (const e of list) {
    const lane = of.get(e.finding.id);
    if (lane) lane.push(e);
    else of.set(e.finding.id, [e]);
  }
  const all = [...of].map(([id, some]): Lane => ({ name: id, ids: [id], episodes: some }));
  if (all.length <= most) return all;
  const rest = all.slice(most - 1);
  return [
    ...all.slice(0, most - 1),
    {
      name: `${rest.length} others`,
      ids: rest.map((l) => l.name),
      episodes: rest.flatMap((l) => l.episodes),
    },
  ];
}

/** The time of an episode with some of before and after. */
export function around(e: Pick<Episode, "from" | "to">): Moments {
  const margin = Math.max(30_000, (e.to - e.from) / 2);
  return {
    from: Math.floor((e.from - margin) / 1000) * 1000,
    to: Math.ceil((e.to + margin) / 1000) * 1000,
  };
}

/** How the small graphs of evidence are asked for: a few rows. */
export const evidenceWhen = (m: Moments): When => ({
  from: m.from,
  to: m.to,
  columns: 240,
  top: 3,
});

/** The queries of the evidence of an episode that have a graph. */
export function evidenceOf(e: Episode): string[] {
  const list = (e.finding.evidence ?? []).filter((x) => x.statistic && x.over);
  return [...new Set(list.map((x) => x.statistic))];
}
