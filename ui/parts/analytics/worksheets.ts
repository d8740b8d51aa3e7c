// A named worksheet as a text, and the terms that all of its graphs are narrowed by. Pure.

import type { Stat, Worksheet } from "../../data/api";
import { parse, print, type Term, termText } from "../../data/drill";
import { analytics } from "../../state/analytics";
import * as param from "../../state/param";

/** What a worksheet keeps of the address: no time, and nothing that is marked in it. */
const { q, o, host, columns, only } = analytics;
const kept = { q, o, host, columns, only };
export type Kept = param.State<typeof kept>;
type State = param.State<typeof analytics>;

/** The text that the server keeps of a worksheet. */
export function stateText(state: Kept): string {
  return new URLSearchParams(param.print(kept, state)).toString();
}

/** The worksheet of a text. */
export function stateOf(text: string): Kept {
  return param.parse(kept, new URLSearchParams(text));
}

/** A named worksheet as the address has it: without marks, which are of another one's time. */
export function worksheetPlace(one: Pick<Worksheet, "id" | "version" | "state">): Partial<State> {
  const none = { at: 0, a: 0, b: 0, against: "" };
  return { ...stateOf(one.state), ...none, sheet: one.id, version: one.version };
}

/** A list with one element at another place. */
export function moved<T>(list: readonly T[], from: number, to: number): T[] {
  const out = [...list];
  out.splice(to, 0, ...out.splice(from, 1));
  return out;
}

/** The terms of a filter; null of a text that is none. */
export function filterTerms(text: string): Term[] | null {
  if (text.trim() === "") return [];
  const parts = parse(`x where ${text.trim().replace(/^where /, "")}`);
  return parts === null || parts.by.length > 0 ? null : parts.where;
}

/**
 * A query that is narrowed by the terms for which its statistic has a field; the others are
 * returned as lost.
 */
export function filtered(
  sentence: string,
  terms: readonly Term[],
  stat: Stat | undefined,
): { text: string; lost: string[] } {
  const parts = terms.length > 0 ? parse(sentence) : null;
  if (!parts) return { text: sentence, lost: [] };
  const fields = new Set((stat?.fields ?? []).map((f) => f.name));
  const has = new Set(parts.where.map(termText));
  const more = terms.filter((t) => fields.has(t.field) && !has.has(termText(t)));
  return {
    text: more.length === 0 ? sentence : print({ ...parts, where: [...parts.where, ...more] }),
    lost: terms.filter((t) => !fields.has(t.field)).map(termText),
  };
}

/** A query without the terms that a filter added to it: those that its base does not have. */
export function unfiltered(sentence: string, base: string, terms: readonly Term[]): string {
  const parts = terms.length > 0 ? parse(sentence) : null;
  if (!parts) return sentence;
  const own = new Set((parse(base)?.where ?? []).map(termText));
  const added = new Set(terms.map(termText).filter((t) => !own.has(t)));
  const where = parts.where.filter((t) => !added.has(termText(t)));
  return where.length === parts.where.length ? sentence : print({ ...parts, where });
}
