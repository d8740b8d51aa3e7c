// Which problems of the server a view shows: those that change its numbers. Pure.

import type { Problem } from "../data/api";
import { type Place, place } from "./place";

/** The problems of an answer of any server; an older one has texts only. */
export const problemsOf = (
  h: { trouble: string[] | null; problems?: Problem[] | null } | null,
): Problem[] => h?.problems ?? (h?.trouble ?? []).map((text) => ({ key: text, text }));

/** The script that a problem is about; "" of any other. */
export const scriptOf = (p: Problem): string => /^recording: script (.*)$/s.exec(p.key)?.[1] ?? "";

/** The statistics that are not recorded, by the beginning of their names; "" of any other. */
const groupOf = (p: Problem): string =>
  /^recording: budget (.+?)(?: \(traced\))?$/s.exec(p.key)?.[1] ?? "";

/**
 * Whether a problem changes what a place shows. That of a script changes the graphs of its
 * statistics; Trace has it in the row of the script. That of a group of statistics does not change
 * profiles and scripts, and only graphs of that group. Datasets shows all: it is the view of the
 * recording.
 */
export function concerns(p: Problem, at: Place): boolean {
  if (at.view === "datasets") return true;
  const [script, group] = [scriptOf(p), groupOf(p)];
  const names = script !== "" ? `trace.${script}.` : group !== "" ? `${group}.` : "";
  if (names === "") return true;
  if (at.view === "analytics") return at.state.q.some((q) => q.includes(names));
  if (script !== "") return false;
  if (at.view === "profile") return group === "cpu.stack";
  return at.view === "now" || at.view === "findings";
}

/** Where more is to be seen of a problem. */
export function seenAt(p: Problem): Place {
  const script = scriptOf(p);
  return script !== "" ? place("trace", { s: script }) : place("datasets");
}
