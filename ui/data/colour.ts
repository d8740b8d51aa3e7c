// Which colour a value has. The same in all graphs as far as eight colours go: the colour is of the
// value's text, and what two values of one graph would share goes to the larger.

/**
 * The eight colours of Okabe and Ito, in the order in which they are given; the eighth is the
 * colour of the text.
 */
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

/** Remembers which value was given which colour, over all graphs of the page. */
export class Palette {
  private readonly given = new Map<string, number>();

  /**
   * Colours for the values of one graph, most important first: a place from 0 to 7, or grey beyond
   * the eighth. What was given a colour before - in this graph or another - keeps it, unless a more
   * important one of this graph has the same; a new value gets its own by hash when that is free
   * here, else the next free one that the fewest values have.
   */
  assign(values: readonly string[]): number[] {
    const out = new Array<number>(values.length).fill(grey);
    const taken = new Array<boolean>(colours).fill(false);
    const n = Math.min(values.length, colours);
    for (let i = 0; i < n; i++) {
      const p = this.given.get(values[i]!);
      if (p !== undefined && !taken[p]) {
        out[i] = p;
        taken[p] = true;
      }
    }
    for (let i = 0; i < n; i++) {
      if (out[i] !== grey) continue;
      const known = this.given.has(values[i]!);
      let p = placeOf(values[i]!);
      if (taken[p]) p = this.freest(taken);
      out[i] = p;
      taken[p] = true;
      if (!known) this.given.set(values[i]!, p);
    }
    return out;
  }

  private freest(taken: readonly boolean[]): number {
    const used = new Array<number>(colours).fill(0);
    for (const p of this.given.values()) used[p]!++;
    let best = -1;
    for (let p = 0; p < colours; p++)
      if (!taken[p] && (best < 0 || used[p]! < used[best]!)) best = p;
    return best;
  }
}
