// Which colour a value has: that of its hash, so that all graphs and all viewers show a value
// alike. Of two values of one graph with the same hash one takes another colour, by their texts
// alone.

/** The colours of the theme: c0 to c7 in page.css. No two are near twins. */
export const colours = 8;

/** The place of "other" and of rows beyond the eight: no colour of its own. */
export const grey = -1;

/** A place from 0 to 7 for a text, always the same (FNV-1a). */
export function placeOf(text: string): number {
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
 * the eighth. The order among the eight has no effect. Values whose hash is free keep it; the
 * others take the next free place, in the order of their texts.
 */
export function assign(values: readonly string[]): number[] {
  const out = new Array<number>(values.length).fill(grey);
  const taken = new Array<boolean>(colours).fill(false);
  const first = values.slice(0, colours).map((text, i) => ({ text, i }));
  first.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.i - b.i));
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
