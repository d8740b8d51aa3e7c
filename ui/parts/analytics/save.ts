// A graph as a file.

import { get } from "../../data/client";
import { type Answer, endOf, fromJSON } from "../../data/columns";
import { csv, earlierRows } from "../../data/csv";
import { snapshot } from "../../data/snapshot";
import { howLong } from "../../data/units";
import { moment } from "../../draw/axis";

/** Hands a text to the browser as a file. */
export function handOut(text: string, name: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** How far before its own time a graph is compared, in milliseconds; 0: it is not compared. */
export interface Earlier {
  by: number;
  /** What is shown of it; null: nothing yet. */
  shown: Answer | null;
}

/**
 * Hands out the rows of an answer as CSV, with those of its earlier time. It asks for them with all
 * digits, and for those that were not sent; a snapshot has those that are shown. ids are the rows
 * that are wanted; null: all. host is a host of the engine.
 */
export async function saveCSV(
  sentence: string,
  answer: Answer,
  ids: ReadonlySet<string> | null,
  earlier: Earlier,
  host: string,
  name: string,
): Promise<void> {
  const begin = Math.round(answer.start);
  const exact = async (before: number): Promise<Answer> =>
    fromJSON(
      await get<unknown>("ask", {
        q: sentence,
        from: String(begin - before),
        to: String(Math.round(endOf(answer)) - before),
        step: String(answer.step),
        host: host === "" ? undefined : host,
      }),
    );
  const now = snapshot === null ? await exact(0) : answer;
  const chosen = ids === null ? now.series : now.series.filter((s) => ids.has(s.id));
  const then =
    earlier.by === 0 ? null : snapshot === null ? await exact(earlier.by) : earlier.shown;
  const before = then && {
    answer: then,
    series: earlierRows(then, chosen, ids !== null),
    words: `${howLong(earlier.by)} before`,
  };
  const file = `${name} ${moment(begin).replaceAll(":", "")}.csv`;
  handOut(csv(now, chosen, before), file, "text/csv");
}
