// Names of rows in parts: what a row shares with the others may be cut where there is little space,
// what is its own may not.

export interface Part {
  text: string;
  /** Shared with the other rows. */
  common: boolean;
}

/** Shared text that is shorter is not worth a cut. */
const least = 4;

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
 * the labels that are not empty with spaces between.
 */
export function namesOf(rows: readonly (readonly string[])[]): (row: readonly string[]) => Part[] {
  const width = rows[0]?.length ?? 0;
  const fields = Array.from({ length: width }, (_, f) => {
    const labels = [...new Set(rows.map((r) => r[f] ?? ""))];
    return labels.length < 2 ? { head: Infinity, tail: 0 } : shared(labels);
  });
  return (row) => {
    const out: Part[] = [];
    const add = (text: string, common: boolean): void => {
      const last = out.at(-1);
      if (text === "") return;
      if (last && last.common === common) last.text += text;
      else out.push({ text, common });
    };
    row.forEach((label, f) => {
      if (label === "") return;
      if (out.length > 0) add(" ", out.at(-1)?.common ?? false);
      const { head, tail } = fields[f] ?? { head: 0, tail: 0 };
      const from = Math.min(head, label.length);
      const to = Math.max(from, label.length - Math.min(tail, label.length - from));
      add(label.slice(0, from), true);
      add(label.slice(from, to), false);
      add(label.slice(to), true);
    });
    if (rows.length < 2) return [{ text: out.map((p) => p.text).join(""), common: false }];
    const kept: Part[] = [];
    for (const p of out) {
      const common = p.common && p.text.length >= least;
      const last = kept.at(-1);
      if (last && last.common === common) last.text += p.text;
      else kept.push({ text: p.text, common });
    }
    return kept;
  };
}
