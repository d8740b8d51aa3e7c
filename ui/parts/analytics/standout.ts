// Where one goes on from a part of a heat map.

import type { Stat } from "../../data/api";
import { print, type Sentence, type Term } from "../../data/drill";

/** A stretch of whole seconds, at least one long: the name of a profile of recorded samples. */
export function longer(from: number, to: number): { from: number; to: number } {
  const start = Math.floor(from / 1000) * 1000;
  return { from: start, to: Math.max(start + 1000, Math.ceil(to / 1000) * 1000) };
}

/**
 * The query for how long threads waited instead of running, of the processes that a query selects;
 * null on a machine that does not measure it. wider: the sentence, where some of its terms are of
 * fields that waits don't have.
 */
export function offCPU(
  q: Sentence,
  stats: readonly Stat[],
): { sentence: string; wider: string[] } | null {
  const waits = ["process.delay", "process.runwait"]
    .map((id) => stats.find((s) => s.id === id))
    .find((s) => s !== undefined);
  if (!waits) return null;
  const has = (name: string) => (waits.fields ?? []).some((f) => f.name === name);
  const kept: Term[] = q.where.filter((t) => has(t.field));
  const by = ["process", "reason"].filter(has);
  return {
    sentence: print({ stat: waits.id, by, where: kept }),
    wider: kept.length < q.where.length ? [print({ ...q, by: [] })] : [],
  };
}
