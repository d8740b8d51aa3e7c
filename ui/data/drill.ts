// Sentences taken apart and put together: to narrow one to a row, to drill into it, to know what its rows add up to. Whether one
// is right the server says; here a wrong sentence is only one that can't be taken apart.
//
//     sentence = statistic [ "by" field { "," field } ] [ "where" term { "and" term } ]

import type { Stat } from "./api";

export interface Term {
  field: string;
  op: string;
  values: string[];
}

export interface Sentence {
  stat: string;
  by: string[];
  where: Term[];
}

interface Token {
  kind: "word" | "text" | "mark";
  text: string;
  from: number;
  to: number;
}

const wordLetter = /[0-9A-Za-z_.\-:/*?@+%\u0080-\uffff]/;

function tokens(text: string): Token[] {
  const out: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const c = text[at]!;
    if (/\s/.test(c)) {
      at++;
      continue;
    }
    const from = at;
    if (wordLetter.test(c)) {
      while (at < text.length && wordLetter.test(text[at]!)) at++;
      out.push({ kind: "word", text: text.slice(from, at), from, to: at });
    } else if (c === '"') {
      at++;
      while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      at = Math.min(at + 1, text.length);
      out.push({ kind: "text", text: unquote(text.slice(from, at)), from, to: at });
    } else {
      at++;
      if ("!<>=".includes(c) && (text[at] === "=" || (c === "!" && text[at] === "~"))) at++;
      out.push({ kind: "mark", text: text.slice(from, at), from, to: at });
    }
  }
  return out;
}

function unquote(text: string): string {
  const inner = text.replace(/^"/, "").replace(/"$/, "");
  const plain: Record<string, string> = { n: "\n", t: "\t", r: "\r", a: "\x07", b: "\b", f: "\f", v: "\v" };
  return inner.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/g, (_, x, u, long, c) =>
    c !== undefined ? (plain[c] ?? c) : String.fromCodePoint(Number.parseInt(x ?? u ?? long, 16)),
  );
}

/** A value as a sentence has it: digits as they are, anything else in quotes. */
export function quote(value: string): string {
  if (/^[0-9]+$/.test(value)) return value;
  let out = '"';
  for (const c of value) {
    if (c === '"' || c === "\\") out += `\\${c}`;
    else if (c === "\n") out += "\\n";
    else if (c === "\t") out += "\\t";
    else if (c < " " || c === "\x7f") out += `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`;
    else out += c;
  }
  return `${out}"`;
}

const compare = new Set(["=", "==", "!=", "<", "<=", ">", ">=", "~", "!~"]);

/** The parts of a sentence; null of what can't be taken apart. */
export function parse(text: string): Sentence | null {
  const list = tokens(text);
  let at = 0;
  const word = (): string | null => (list[at]?.kind === "word" ? list[at++]!.text : null);
  const mark = (m: string): boolean => list[at]?.kind === "mark" && list[at]!.text === m && ++at > 0;
  const keyword = (w: string): boolean => list[at]?.kind === "word" && list[at]!.text === w && ++at > 0;
  const value = (): string | null => (list[at] && list[at]!.kind !== "mark" ? list[at++]!.text : null);
  const stat = word();
  if (stat === null) return null;
  const q: Sentence = { stat, by: [], where: [] };
  if (keyword("by")) {
    do {
      const f = word();
      if (f === null) return null;
      q.by.push(f);
    } while (mark(","));
  }
  if (keyword("where")) {
    do {
      const field = word();
      if (field === null) return null;
      if (keyword("in")) {
        if (!mark("(")) return null;
        const values: string[] = [];
        do {
          const v = value();
          if (v === null) return null;
          values.push(v);
        } while (mark(","));
        if (!mark(")")) return null;
        q.where.push({ field, op: "in", values });
        continue;
      }
      const op = list[at]?.text ?? "";
      if (list[at]?.kind !== "mark" || !compare.has(op)) return null;
      at++;
      const v = value();
      if (v === null) return null;
      q.where.push({ field, op: op === "==" ? "=" : op, values: [v] });
    } while (keyword("and"));
  }
  return at === list.length ? q : null;
}

/** The sentence of its parts, as the server prints it too. */
export function print(q: Sentence): string {
  const by = q.by.length > 0 ? ` by ${q.by.join(",")}` : "";
  const where = q.where.map((t, i) => {
    const values = t.values.map(quote).join(", ");
    return `${i === 0 ? " where" : " and"} ${t.field} ${t.op} ${t.op === "in" ? `(${values})` : values}`;
  });
  return q.stat + by + where.join("");
}

/** The same question of fewer rows: those with these values. A term that says the same field equals something gives way. */
export function narrowed(q: Sentence, terms: readonly Term[]): Sentence {
  const fields = new Set(terms.map((t) => t.field));
  const kept = q.where.filter((t) => !(fields.has(t.field) && (t.op === "=" || t.op === "in")));
  return { ...q, where: [...kept, ...terms] };
}

/** Equality with each label of a key. */
export function termsOf(by: readonly string[], key: readonly string[]): Term[] {
  return by.map((field, i) => ({ field, op: "=", values: [key[i] ?? ""] }));
}

/** One way further into a row. */
export interface Drill {
  title: string;
  sentence: string;
  /** The same statistic, or another one that knows the thing. */
  same: boolean;
}

// Fields that name a thing of the machine, so that a value of one means the same in another statistic; with the subsystems within
// which it does, where it is not all: a device of the network is none of the disks.
const things: Record<string, readonly string[] | null> = {
  device: ["net", "disk", "irq"],
  process: null,
  pid: null,
  tid: null,
  thread: null,
  cpu: null,
  cgroup: null,
  peer: null,
  local: null,
  mount: null,
  irq: null,
  cache: null,
};

const subsystem = (id: string): string => id.slice(0, id.indexOf("."));

/** All ways further into a row: by the fields that it isn't broken down by yet, and to other statistics of the same thing. */
export function drills(q: Sentence, key: readonly string[], stats: readonly Stat[]): Drill[] {
  const own = stats.find((s) => s.id === q.stat);
  const terms = termsOf(q.by, key);
  const inner = narrowed(q, terms);
  const fixed = new Set(inner.where.filter((t) => t.op === "=").map((t) => t.field));
  const of = terms.map((t) => `${t.field} ${t.values[0] === "" ? '""' : t.values[0]}`).join(", ");
  const tail = of === "" ? "" : ` for ${of}`;
  const out: Drill[] = [];
  for (const f of own?.fields ?? []) {
    if (fixed.has(f.name) || q.by.includes(f.name)) continue;
    out.push({ title: `by ${f.name}${tail}`, sentence: print({ ...inner, by: [f.name] }), same: true });
  }
  for (const s of stats) {
    if (s.id === q.stat || s.id.endsWith(".info")) continue;
    const names = new Set((s.fields ?? []).map((f) => f.name));
    const shared = terms.filter((t) => {
      const within = things[t.field];
      return within !== undefined && names.has(t.field) && t.values[0] !== "" && (within === null || subsystem(s.id) === subsystem(q.stat));
    });
    if (shared.length === 0) continue;
    // A process and its pid say the same; more terms than needed hide rows.
    const left = (s.fields ?? []).find((f) => !shared.some((t) => t.field === f.name) && f.name !== "netns" && f.name !== "pid");
    const where = shared.map((t) => `${t.field} ${t.values[0]}`).join(", ");
    out.push({
      title: `${s.id}${left ? ` by ${left.name}` : ""} for ${where}`,
      sentence: print({ stat: s.id, by: left ? [left.name] : [], where: shared }),
      same: false,
    });
  }
  // The nearest first: of the same subsystem.
  return out.sort((a, b) => Number(b.same) - Number(a.same) || near(q.stat, b.sentence) - near(q.stat, a.sentence));
}

function near(a: string, b: string): number {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** Whether the rows of a sentence add up to a whole, so that they may be stacked. */
export function addsUp(q: Sentence, stat: Stat | undefined): boolean {
  if (stat?.fold !== "sum" || q.by.length === 0) return false;
  return (stat.fields ?? []).every((f) => !f.overlaps || q.where.some((t) => t.field === f.name && t.op === "="));
}

/** The whole that the rows of a sentence are parts of, where they don't sum to it: a sentence of one row, and the words for the rest. */
export function wholeOf(q: Sentence, stat: Stat | undefined): { sentence: string; rest: string } | null {
  return q.where.length === 0 && q.by.length > 0 ? (stat?.whole ?? null) : null;
}
