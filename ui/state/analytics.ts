// What the worksheet shows: its graphs, one under the other.

import { number, text, texts } from "./param";

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
};
