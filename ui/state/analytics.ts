// What the worksheet shows: its graphs, one under the other.

import { flag, number, text, texts, word } from "./param";

export const analytics = {
  /**
   * The sentences of the graphs, from the top. None: those that show a machine to somebody who is
   * new to it.
   */
  q: texts(),
  /**
   * How each is shown, in the order of the sentences: see parts/analytics/graph.ts. "" and what is
   * not there: as a graph is by default.
   */
  o: texts(),
  /** A host of the engine; "": the machine of the server. */
  host: text(),
  /** The columns that the graphs are in. */
  columns: word(["1", "2", "3"], "1"),
  /** Terms that all graphs are narrowed by: see parts/analytics/worksheets.ts. */
  only: text(),
  /** The named worksheet that this was made from, and the version of it; 0: none. */
  sheet: number(0),
  version: number(0),
  /**
   * The crosshair and the marks A and B, in milliseconds since the epoch; 0 where there is none.
   */
  at: number(0),
  a: number(0),
  b: number(0),
  /**
   * What the time from A to B is compared with: see parts/analytics/changed.ts; "": it is not
   * compared.
   */
  against: text(),
  /** The events that recorded statistics show are on the time axis too. */
  events: flag(),
};
