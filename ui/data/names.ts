// Names of rows in parts: what a row shares with the others may be cut where there is little space,
// what is its own may not.

export interface Part {
  text: string;
  /** Shared with the other rows. */
  common: boolean;
}

/** Shared text that is shorter is not worth a cut. */
const least = 4;

/**
 * A name with up to this number of labels of its own is cut within each label. With more, two
 * letters of each would be left.
 */
const mostOwn = 4;

/** Parts in which neighbours of one kind are one. */
function joined(parts: readonly Part[]): Part[] {
  const out: Part[] = [];
  for (const p of parts) {
    const last = out.at(-1);
    if (last && last.common === p.common) last.text += p.text;
    else out.push({ ...p });
  }
  return out;
}

function shared(texts: readonly string[]): { head: number; tail: number } {
  const first = texts[0] ?? "";
  let head = first.length;
  let tail = first.length;
  for (const t of texts) {
    let n = 0;
    while (n < head && n < t.length && t[n] === first[n]) n++;
    head = n;
    n = 0;
    while (n < tail && n < t.length && t[t.length - 1 - n] === first[first.length - 1 - n]) n++;
    tail = n;
  }
  return { head, tail };
}

/**
 * A function that takes the name of a row of these apart. The rows are lists of labels; a name is
 * the labels that are not empty with spaces between. What two labels have of their own is in two
 * parts, so that a long one is cut and not the short one after it.
 */
export function namesOf(rows: readonly (readonly string[])[]): (row: readonly string[]) => Part[] {
  const width = rows[0]?.length ?? 0;
  const fields = Array.from({ length: width }, (_, f) => {
    const all = [...new Set(rows.map((r) => r[f] ?? ""))];
    const labels = all.filter((l) => l !== ""); // a row may have none, as no namespace
    if (labels.length === 1 && all.length === 2) return { head: 0, tail: 0 };
    return labels.length < 2 ? { head: Infinity, tail: 0 } : shared(labels);
  });
  return (row) => {
    const out: Part[] = [];
    const add = (text: string, common: boolean): void => {
      if (text !== "") out.push({ text, common });
    };
    row.forEach((label, f) => {
      if (label === "") return;
      const before = out.at(-1);
      if (before) before.text += " ";
      const { head, tail } = fields[f] ?? { head: 0, tail: 0 };
      const from = Math.min(head, label.length);
      const to = Math.max(from, label.length - Math.min(tail, label.length - from));
      add(label.slice(0, from), true);
      add(label.slice(from, to), false);
      add(label.slice(to), true);
    });
    if (rows.length < 2) return [{ text: out.map((p) => p.text).join(""), common: false }];
    // A short shared part belongs to the part before it, or to the one after it.
    const kept: Part[] = [];
    let short = "";
    for (const p of out) {
      const last = kept.at(-1);
      if (p.common && p.text.length < least) {
        if (last && !last.common && !last.text.endsWith(" ")) last.text += p.text;
        else short += p.text;
      } else if (p.common && last?.common && short === "") {
        last.text += p.text;
      } else {
        if (short !== "" && p.common) kept.push({ text: short, common: false });
        kept.push({ text: p.common ? p.text : short + p.text, common: p.common });
        short = "";
      }
    }
    if (short !== "") kept.push({ text: short, common: false });
    return kept.filter((p) => !p.common).length > mostOwn ? joined(kept) : kept;
  };
}
