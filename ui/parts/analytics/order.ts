// The order of the rows of a graph's panel. Pure.

import { byValue, unlikeFirst } from "../../data/series";
import type { Sort } from "./graph";
import type { Row } from "./scene";

/** A column of the panel that rows are sorted by; "" is the usual order. */
export type SortColumn = "name" | "value" | "mean";

/** The column of an order, and whether it is the reverse of the natural one. */
export function columnOf(sort: Sort): { column: SortColumn | ""; reversed: boolean } {
  const reversed = sort.startsWith("-");
  return { column: (reversed ? sort.slice(1) : sort) as SortColumn | "", reversed };
}

/** The order after a click on a column: its natural order, the reverse of it, the usual one. */
export function nextSort(sort: Sort, column: SortColumn): Sort {
  return sort === column ? `-${column}` : sort === `-${column}` ? "" : column;
}

/**
 * The rows in an order. The natural order of names is A to Z, of numbers the largest first; rows
 * without a number are last both ways. The usual order has the rows that are unlike the others
 * first, then the largest: by the value in the cell if byCell, else by the mean.
 */
export function sorted(rows: readonly Row[], sort: Sort, cell: number, byCell: boolean): Row[] {
  const { column, reversed } = columnOf(sort);
  const number = (r: Row): number => {
    if (column === "name") return 0;
    const value = column === "value" || (column === "" && byCell);
    return value ? (r.values[cell] ?? Number.NaN) : r.mean;
  };
  const numbers = rows.map(number);
  const order = byValue(
    numbers,
    rows.map((r) => r.name),
  );
  const known = order.filter((i) => !Number.isNaN(numbers[i]!));
  const unknown = order.filter((i) => Number.isNaN(numbers[i]!));
  const list = [...(reversed ? known.reverse() : known), ...unknown].map((i) => rows[i]!);
  return column === "" ? unlikeFirst(list) : list;
}
