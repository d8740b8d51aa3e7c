// The words of a D program by kind, for their colours. Not a parser: a text that is being written
// is seldom complete.

import type { Place } from "../../data/client";
import { indexOfByte } from "../../data/sentence";

export type Kind = "" | "comment" | "string" | "number" | "probe" | "word" | "own" | "sum";

/** A piece of a text; wrong is the number of the fault that it is in, from 1, or 0. */
export interface Piece {
  text: string;
  kind: Kind;
  wrong: number;
}

const known =
  /^(?:if|else|for|while|sizeof|struct|union|enum|typedef|inline|translator|xlate|self|this|string|int|char|long|short|unsigned|uint\d+_t|int\d+_t|void|args|arg\d|pid|tid|ppid|uid|gid|cpu|errno|execname|execargs|timestamp|walltimestamp|vtimestamp|probefunc|probename|probemod|probeprov|curthread|curpsinfo|curlwpsinfo|caller|ucaller)$/;

const token =
  /\/\*[\s\S]*?(?:\*\/|$)|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|#[^\n]*|@\w*|\d[\w.]*|[A-Za-z_]\w*|[\s\S]/g;

/** A description of a probe, as it stands before a clause. */
const description = /^(?:[A-Za-z_]\w*:[^\s,;{}]*|BEGIN\b|END\b|ERROR\b|(?:tick|profile)-\w+)/;

/** The text in pieces, each of one kind. */
export function tokens(text: string): { text: string; kind: Kind }[] {
  const out: { text: string; kind: Kind }[] = [];
  let depth = 0;
  let predicate = false;
  const add = (t: string, kind: Kind): void => {
    const last = out.at(-1);
    if (last && last.kind === kind) last.text += t;
    else out.push({ text: t, kind });
  };
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const at = token.lastIndex;
    if (depth === 0 && !predicate) {
      const d = description.exec(text.slice(at, at + 1024));
      if (d) {
        add(d[0], "probe");
        token.lastIndex = at + d[0].length;
        continue;
      }
    }
    const t = token.exec(text)?.[0] ?? "";
    if (t === "") break;
    if (t === "{") {
      depth++;
      predicate = false;
    } else if (t === "}") depth = Math.max(0, depth - 1);
    else if (t === "/" && depth === 0)
      predicate = !(predicate && /^\/\s*(?:[{;]|$)/.test(text.slice(at, at + 256)));
    add(t, kindOf(t, text, at + t.length));
  }
  return out;
}

function kindOf(t: string, text: string, end: number): Kind {
  if (t.startsWith("/*") || t.startsWith("//") || t.startsWith("#")) return "comment";
  if (t.startsWith('"') || t.startsWith("'")) return "string";
  if (t.startsWith("@")) return "sum";
  if (/^\d/.test(t)) return "number";
  if (!/^[A-Za-z_]/.test(t)) return "";
  if (known.test(t)) return "word";
  return text[end] === "(" ? "own" : "";
}

/** Pieces that follow each other in one fault, or in none. */
export function groups(all: readonly Piece[]): { wrong: number; pieces: Piece[] }[] {
  const out: { wrong: number; pieces: Piece[] }[] = [];
  for (const p of all) {
    const last = out.at(-1);
    if (last && last.wrong === p.wrong) last.pieces.push(p);
    else out.push({ wrong: p.wrong, pieces: [p] });
  }
  return out;
}

/** The pieces of a text with its faults. A fault within another is not marked by itself. */
export function pieces(text: string, wrong: readonly Place[]): Piece[] {
  const marks: { from: number; to: number; wrong: number }[] = [];
  let last = 0;
  for (const [i, w] of wrong.entries()) {
    const from = indexOfByte(text, w.position);
    const to = Math.max(from + 1, indexOfByte(text, w.position + Math.max(1, w.length)));
    if (from < last) continue;
    marks.push({ from, to, wrong: i + 1 });
    last = to;
  }
  const out: Piece[] = [];
  let at = 0;
  let m = 0;
  for (const t of tokens(text)) {
    let rest = t.text;
    while (rest !== "") {
      while (m < marks.length && marks[m]!.to <= at) m++;
      const mark = marks[m];
      const inside = mark !== undefined && at >= mark.from;
      const edge = mark === undefined ? Infinity : inside ? mark.to : mark.from;
      const part = rest.slice(0, Math.max(1, edge - at));
      out.push({ text: part, kind: t.kind, wrong: inside ? mark.wrong : 0 });
      rest = rest.slice(part.length);
      at += part.length;
    }
  }
  // A fault at the end of the text has a blank of its own.
  const end = marks.find((x) => x.from >= text.length);
  if (end) out.push({ text: " ", kind: "", wrong: end.wrong });
  return out;
}
