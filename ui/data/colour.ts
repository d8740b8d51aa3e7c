// Which colour a value has: that of its hash, so that all graphs and all viewers show a value
// alike. Of two values of one graph with the same hash one takes another colour, by their texts
// alone. Modes of CPUs, which are in most worksheets, have colours of their own, whatever other
// modes are in sight.

/** The colours of the theme: c0 to c7 in page.css. No two are near twins. */
export const colours = 8;

/** The place of "other" and of rows beyond the eight: no colour of its own. */
export const grey = -1;

/** Values with a place of their own. No two of them have the same. */
const own = new Map([
  ["sys", 0],
  ["unaccounted", 1],
  ["irq", 2],
  ["iowait", 3],
  ["usr", 4],
  ["steal", 5],
  ["soft", 6],
  ["nice", 7],
]);

/** A place from 0 to 7 for a text, always the same: its own, or that of its hash (FNV-1a). */
export function placeOf(text: string): number {
  const mine = own.get(text);
  if (mine !== undefined) return mine;
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    h ^= text.charCodeAt(i);
    h = Math.imul(h, 0x01000193);
  }
  h ^= h >>> 15;
  return (h >>> 0) % colours;
}

/**
 * Colours for the values of one graph, most important first: a place from 0 to 7, or grey beyond
 * the eighth. The order among the eight has no effect. Values with a place of their own keep it,
 * and those whose hash is free; the others take the next free place, in the order of their texts.
 */
export function assign(values: readonly string[]): number[] {
  const out = new Array<number>(values.length).fill(grey);
  const taken = new Array<boolean>(colours).fill(false);
  const first = values.slice(0, colours).map((text, i) => ({ text, i }));
  const rank = (text: string): number => (own.has(text) ? 0 : 1);
  first.sort(
    (a, b) =>
      rank(a.text) - rank(b.text) || (a.text < b.text ? -1 : a.text > b.text ? 1 : a.i - b.i),
  );
  for (const { text, i } of first) {
    const p = placeOf(text);
    if (taken[p]) continue;
    out[i] = p;
    taken[p] = true;
  }
  for (const { text, i } of first) {
    if (out[i] !== grey) continue;
    let p = placeOf(text);
    while (taken[p]) p = (p + 1) % colours;
    out[i] = p;
    taken[p] = true;
  }
  return out;
}
