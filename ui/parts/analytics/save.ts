// A graph as a file.

import { get } from "../../data/client";
import { type Answer, endOf, fromJSON } from "../../data/columns";
import { csv } from "../../data/series";
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

/**
 * Asks for the rows of an answer with all digits, also for those that were not sent, and hands them
 * out as CSV. ids are the rows that are wanted; null: all. host is a host of the engine.
 */
export async function saveCSV(
  sentence: string,
  answer: Answer,
  ids: ReadonlySet<string> | null,
  host: string,
  name: string,
): Promise<void> {
  const begin = Math.round(answer.start);
  const exact = fromJSON(
    await get<unknown>("ask", {
      q: sentence,
      from: String(begin),
      to: String(Math.round(endOf(answer))),
      step: String(answer.step),
      host: host === "" ? undefined : host,
    }),
  );
  const chosen = ids === null ? exact.series : exact.series.filter((s) => ids.has(s.id));
  handOut(csv(exact, chosen), `${name} ${moment(begin).replaceAll(":", "")}.csv`, "text/csv");
}
