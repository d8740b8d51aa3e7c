// The words for a question that follows from a row, and for its price.

import type { Question } from "../../data/api";

/** A share of a CPU in words, to a tenth of a percent: a cost varies by more than that. */
export const shareOf = (cpu: number): string =>
  cpu < 0.001 ? "less than 0.1 % of a CPU" : `${(cpu * 100).toFixed(1)} % of a CPU`;

/** The price of what is not recorded yet; "" of what is. */
export function priceOf(q: Question): string {
  if (q.recorded || q.functions) return "";
  const how = q.traced ? "starts tracing" : "starts recording";
  return q.cpu === null || q.cpu === undefined
    ? `${how}; its cost is measured while it runs`
    : `${how}: ${q.cpu < 0.001 ? "" : "about "}${shareOf(q.cpu)}`;
}
