// Sentences taken apart and put together: to narrow one to a row, to drill into it, to know what
// its rows add up to. Whether one is right the server says; here a wrong sentence is only one that
// can't be taken apart.
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
  const plain: Record<string, string> = {
    n: "\n",
    t: "\t",
    r: "\r",
    a: "\x07",
    b: "\b",
    f: "\f",
    v: "\v",
  };
  return inner.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/g,
    (_, x, u, long, c) =>
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
  const mark = (m: string): boolean =>
    list[at]?.kind === "mark" && list[at]!.text === m && ++at > 0;
  const keyword = (w: string): boolean =>
    list[at]?.kind === "word" && list[at]!.text === w && ++at > 0;
  const value = (): string | null =>
    list[at] && list[at]!.kind !== "mark" ? list[at++]!.text : null;
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

/**
 * The same question of fewer rows: those with these values. A term that says the same field equals
 * something is left out.
 */
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
  /**
   * Sentences whose terms the rows are not narrowed by, as their statistic has no such field. Each
   * names the statistic whose fields its terms are of, so that a drill to a third statistic can
   * carry them again.
   */
  wider: string[];
}

// Fields that name a thing of the machine, so that a value of one means the same in every
// statistic.
const everywhere = new Set(
  [
    "netns",
    "process",
    "pid",
    "tid",
    "thread",
    "cpu",
    "cgroup",
    "peer",
    "peerport",
    "local",
    "localport",
  ].concat(["mount", "irq", "cache"]),
);
// A device of the network is none of the disks; those of control groups are.
const devices: Record<string, string> = { cgroup: "disk" };

const subsystem = (id: string): string => id.slice(0, id.indexOf("."));

const isThing = (field: string): boolean => field === "device" || everywhere.has(field);

/** Two statistics with a field of the same name and the same meaning have the same values in it. */
function meaning(id: string, field: string, help: string): string {
  if (everywhere.has(field)) return "";
  if (field === "device") return devices[subsystem(id)] ?? subsystem(id);
  return help !== "" ? help : id.split(".").slice(0, 2).join(".");
}

const helpOf = (s: Stat | undefined, field: string): string =>
  s?.fields?.find((f) => f.name === field)?.help ?? "";

/** A term as a sentence has it. */
export function termText(t: Term): string {
  const values = t.values.map(quote).join(", ");
  return `${t.field} ${t.op} ${t.op === "in" ? `(${values})` : values}`;
}

/**
 * The words for terms that a graph is not narrowed by, of the sentences that have them; "" where
 * there are none.
 */
export function widerText(wider: readonly string[]): string {
  const terms = wider.flatMap((text) => parse(text)?.where ?? []).map(termText);
  return terms.length === 0 ? "" : `not narrowed by ${terms.join(", ")}`;
}

/** A term, and the statistic whose field it is about, with the field's help. */
interface Held {
  term: Term;
  id: string;
  help: string;
}

/** Terms for people: what an equality of the same field says already is left out. */
function shown(terms: readonly Term[]): Term[] {
  return terms.filter(
    (t) => t.op === "=" || !terms.some((o) => o.field === t.field && o.op === "="),
  );
}

/** Sentences that have these terms, one for each statistic whose fields they are about. */
function sentencesOf(held: readonly Held[]): string[] {
  const stats = [...new Set(held.map((h) => h.id))];
  return stats.map((stat) =>
    print({ stat, by: [], where: held.filter((h) => h.id === stat).map((h) => h.term) }),
  );
}

const short = (t: Term): string =>
  t.op === "=" ? `${t.field} ${t.values[0] === "" ? '""' : t.values[0]}` : termText(t);

/**
 * The things that lead to other statistics: the row's own, else those that the graph is narrowed
 * to. A namespace only where it is all there is.
 */
function anchorsOf(row: readonly Term[], all: readonly Term[]): Set<string> {
  const named = (list: readonly Term[]) =>
    list.filter((t) => t.op === "=" && t.values[0] !== "" && isThing(t.field)).map((t) => t.field);
  const own = named(row);
  const fields = own.length > 0 ? own : named(all);
  const others = fields.filter((f) => f !== "netns");
  return new Set(others.length > 0 ? others : fields);
}

// Fields whose values are unique within a network namespace only: each has an eth0, a lo and a
// 127.0.0.1 of its own.
const perNamespace = new Set(["device", "address", "local", "localport", "peer", "peerport"]);

/**
 * The fields that a graph is broken down by so that it has a row for each value of one. The network
 * namespace is among them where rows of several namespaces would be one row: a device of the same
 * name in another namespace is another device.
 */
function byOf(s: Stat, fixed: ReadonlySet<string>, field: string): string[] {
  const fields = (s.fields ?? []).map((f) => f.name);
  const free = field !== "netns" && fields.includes("netns") && !fixed.has("netns");
  const apart = free && [field, ...fixed].some((f) => perNamespace.has(f) && fields.includes(f));
  return apart ? ["netns", field] : [field];
}

/**
 * All ways further into a row: by the fields that it isn't broken down by yet, and to other
 * statistics of the same thing. wider: what the graph of the row itself is not narrowed by, as in
 * Drill.
 */
export function drills(
  q: Sentence,
  key: readonly string[],
  stats: readonly Stat[],
  wider: readonly string[] = [],
): Drill[] {
  const own = stats.find((s) => s.id === q.stat);
  const terms = termsOf(q.by, key);
  const inner = narrowed(q, terms);
  const fixed = new Set(inner.where.filter((t) => t.op === "=").map((t) => t.field));
  const of = terms.map(short).join(", ");
  const tail = of === "" ? "" : ` for ${of}`;
  const out: Drill[] = [];
  for (const f of own?.fields ?? []) {
    if (!own || fixed.has(f.name) || q.by.includes(f.name)) continue;
    const by = byOf(own, fixed, f.name);
    out.push({
      title: `by ${by.join(",")}${tail}`,
      sentence: print({ ...inner, by }),
      same: true,
      wider: [...wider],
    });
  }
  const held: Held[] = [inner, ...wider.map(parse)].flatMap((from) => {
    const stat = stats.find((s) => s.id === from?.stat);
    return (from?.where ?? []).map((term) => ({
      term,
      id: from!.stat,
      help: helpOf(stat, term.field),
    }));
  });
  const anchors = anchorsOf(terms, inner.where);
  for (const s of stats) {
    if (s.id === q.stat || s.id.endsWith(".info")) continue;
    const d = across(held, anchors, s);
    if (d) out.push(d);
  }
  // The nearest first: of the same subsystem.
  return out.sort(
    (a, b) =>
      Number(b.same) - Number(a.same) || near(q.stat, b.sentence) - near(q.stat, a.sentence),
  );
}

/**
 * The same rows in another statistic: with every term that it has the field of; the title names the
 * others. Null where no thing is shared.
 */
function across(held: readonly Held[], anchors: ReadonlySet<string>, s: Stat): Drill | null {
  const fields = s.fields ?? [];
  const has = ({ term, id, help }: Held): boolean => {
    const f = fields.find((x) => x.name === term.field);
    return f !== undefined && meaning(s.id, f.name, f.help ?? "") === meaning(id, term.field, help);
  };
  const carried = held.filter(has).map((h) => h.term);
  if (!carried.some((t) => t.op === "=" && anchors.has(t.field))) return null;
  const missing = held.filter((h) => !has(h));
  const named = shown(missing.map((h) => h.term));
  const lost = missing.filter((h) => named.includes(h.term));
  const pinned = new Set(carried.filter((t) => t.op === "=").map((t) => t.field));
  const free = fields.filter((f) => !pinned.has(f.name));
  const left =
    free.find((f) => f.name !== "netns" && f.name !== "pid") ??
    free.find((f) => f.name === "netns");
  const by = left ? byOf(s, pinned, left.name) : [];
  const wider = sentencesOf(lost);
  const not = lost.length > 0 ? ` (${widerText(wider)})` : "";
  return {
    title: `${s.id}${left ? ` by ${by.join(",")}` : ""} for ${shown(carried).map(short).join(", ")}${not}`,
    sentence: print({ stat: s.id, by, where: carried }),
    same: false,
    wider,
  };
}

function near(a: string, b: string): number {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** Whether a sentence asks for one value of a field. */
const pins = (q: Sentence, field: string): boolean =>
  q.where.some(
    (t) => t.field === field && (t.op === "=" || (t.op === "in" && t.values.length === 1)),
  );

/**
 * Whether the rows of a sentence add up to a whole: the catalogue says so of the statistic, and no
 * two rows count the same thing.
 */
export function addsUp(q: Sentence, stat: Stat | undefined): boolean {
  if (!stat?.may?.sum || q.by.length === 0) return false;
  const over = (stat.fields ?? []).filter((f) => f.overlaps);
  // Of things in a tree, rows of one place, or below one parent, overlap by no other field.
  if (over.some((f) => (f.name === "parent" || f.name === "handle") && pins(q, f.name)))
    return true;
  return over.every((f) => pins(q, f.name));
}

/** Whether the rows of a sentence may be drawn on one another. */
export function stacks(q: Sentence, stat: Stat | undefined): boolean {
  return addsUp(q, stat) && stat?.may?.stack === true;
}

/**
 * The whole that the rows of a sentence are parts of, where they don't sum to it: a sentence of one
 * row, and the words for the rest.
 */
export function wholeOf(
  q: Sentence,
  stat: Stat | undefined,
): { sentence: string; rest: string } | null {
  return q.where.length === 0 && addsUp(q, stat) ? (stat?.whole ?? null) : null;
}
