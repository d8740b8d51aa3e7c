// What choosing rows of a graph makes of its query and of how it is shown. Pure.

import { narrowed, print, type Sentence, termsOf } from "../../data/drill";
import type { Options } from "./graph";

type Key = readonly string[];

const same = (x: Key, y: Key): boolean => x.length === y.length && x.every((v, i) => v === y[i]);
const among = (list: readonly Key[], key: Key): boolean => list.some((k) => same(k, key));

/** Another query, or another way to show the same. */
export type Shown = { sentence: string } | { options: Partial<Options> };

/** The selection after a click on a row; more: the other selected rows stay. */
export function selectedAfter(
  selected: readonly string[][],
  key: string[],
  more: boolean,
): string[][] {
  const is = among(selected, key);
  if (more) return is ? selected.filter((k) => !same(k, key)) : [...selected, key];
  return is && selected.length === 1 ? [] : [key];
}

/** The query of some rows, where a query can name them; else of all rows. */
export function only(q: Sentence, list: readonly string[][]): Sentence {
  if (list.length === 1) return narrowed(q, termsOf(q.by, list[0]!));
  return q.by.length === 1
    ? narrowed(q, [{ field: q.by[0]!, op: "in", values: list.map((k) => k[0]!) }])
    : q;
}

/** Some rows alone: by the query, where it can name them; else the others are hidden. */
export function isolated(q: Sentence, list: readonly string[][], all: readonly string[][]): Shown {
  if (list.length === 1 || q.by.length === 1) return { sentence: print(only(q, list)) };
  return { options: { hidden: all.filter((k) => !among(list, k)), selected: [] } };
}

/** All but some rows: by the query, where it can name them; else they are hidden. */
export function excluded(
  q: Sentence,
  list: readonly string[][],
  hidden: readonly string[][],
): Shown {
  if (q.by.length !== 1) return { options: { hidden: [...hidden, ...list], selected: [] } };
  const terms = list.map((k) => ({ field: q.by[0]!, op: "!=", values: [k[0]!] }));
  return { sentence: print({ ...q, where: [...q.where, ...terms] }) };
}
