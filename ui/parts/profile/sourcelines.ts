// The source lines of a function.

import type { Functions, Lines } from "../../data/profile";

/** What a line has. */
export interface SourceLine {
  fn: number;
  file: string;
  line: number;
  self: number;
  total: number;
}

/** The lines of all functions of a name, those with the most in themselves first. */
export function linesOf(f: Functions, l: Lines | null, name: string): SourceLine[] {
  const out: SourceLine[] = [];
  for (let i = 0; l && i < l.fn.length; i++) {
    const fn = l.fn[i]!;
    if (fn === 0 || f.names[fn] !== name) continue;
    const file = f.files[f.file[fn]!] || f.modules[f.module[fn]!] || "?";
    out.push({ fn, file, line: l.line[i]!, self: l.self[i]!, total: l.total[i]! });
  }
  return out.sort((a, b) => b.self - a.self || b.total - a.total || a.line - b.line);
}

/** The same, those with the most in all first. */
export function totalOrder(lines: readonly SourceLine[]): SourceLine[] {
  return [...lines].sort((a, b) => b.total - a.total || b.self - a.self || a.line - b.line);
}
