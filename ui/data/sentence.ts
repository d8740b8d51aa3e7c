// What may come next in a sentence. The server is the judge of what is right; this only helps to
// type it.
//
//   sentence = stat [ "by" field { "," field } ] [ "where" term { "and" term } ]

import type { Field, Stat } from "./api";
import { quote } from "./drill";

export interface Option {
  text: string;
  help: string;
}

export interface Completion {
  /** The part of the text that an option takes the place of. */
  from: number;
  to: number;
  options: Option[];
}

const operators: Option[] = [
  { text: "=", help: "is" },
  { text: "!=", help: "is not" },
  { text: "~", help: "matches a pattern of * and ?" },
  { text: "!~", help: "does not match a pattern of * and ?" },
  { text: "in", help: "is one of a list: in (a, b)" },
  { text: "<", help: "less than, as numbers" },
  { text: "<=", help: "at most, as numbers" },
  { text: ">", help: "greater than, as numbers" },
  { text: ">=", help: "at least, as numbers" },
];

/**
 * What may stand at the cursor, best first, at most `most`. values returns the values of a field,
 * as far as they are known.
 */
export function complete(
  text: string,
  cursor: number,
  stats: readonly Stat[],
  most = 12,
  values: (stat: string, field: string) => readonly string[] = () => [],
): Completion {
  const before = text.slice(0, cursor);
  // Within quotes a value may have any letter, and an option takes the place of the quotes too.
  const open = openQuote(before);
  const part =
    open < 0
      ? (/[^\s,()=<>~!"]*$/.exec(before)?.[0] ?? "")
      : before.slice(open + 1).replace(/\\(.)/g, "$1");
  const from = open < 0 ? cursor - part.length : open;
  const after = open < 0 ? /^[^\s,()=<>~!"]*/ : /^[^\s"]*"?/;
  const rest = after.exec(text.slice(cursor))?.[0] ?? "";
  const to = cursor + rest.length;
  const words =
    before.slice(0, from).match(/"(?:[^"\\]|\\.)*"?|[^\s,()=<>~!"]+|[,()]|[=<>~!]+/g) ?? [];
  const give = (options: Option[]): Completion => ({
    from,
    to,
    options: rank(options, part).slice(0, most),
  });
  const none: Completion = { from, to, options: [] };

  if (words.length === 0) return give(stats.map((s) => ({ text: s.id, help: s.help })));
  const stat = stats.find((s) => s.id === words[0]);
  if (!stat) return none;
  const fields = (stat.fields ?? []).map((f) => ({ text: f.name, help: f.help }));
  const by: Option = { text: "by", help: "a row for each value of" };
  const where: Option = { text: "where", help: "only rows whose" };

  const known = (field: string): Option[] =>
    values(stat.id, field).map((v) => ({ text: quote(v), help: "" }));
  let i = 1;
  const used: string[] = [];
  if (words[i] === "by") {
    i++;
    while (i < words.length) {
      used.push(words[i]!);
      i++;
      if (words[i] !== ",") break;
      i++;
    }
    // Nothing after "by" or after a comma: a field is due.
    if (i === words.length && (words[i - 1] === "by" || words[i - 1] === ","))
      return give(fields.filter((f) => !used.includes(f.text)));
    if (i === words.length) return give(fields.length > 0 ? [where] : []);
  } else if (i === words.length) return give(fields.length > 0 ? [by, where] : []);

  if (words[i] !== "where") return none;
  i++;
  for (;;) {
    if (i === words.length) return give(fields);
    const field = words[i++]!;
    if (i === words.length) return give(operators);
    const op = words[i++];
    if (i === words.length && op !== "in") return give(known(field));
    if (op === "in") {
      if (i < words.length && (words[words.length - 1] === "(" || words[words.length - 1] === ","))
        return give(known(field));
      while (i < words.length && words[i] !== ")") i++;
      if (i === words.length) return none;
    }
    i++; // the value, or the list's end
    if (i === words.length) return give([{ text: "and", help: "also" }]);
    if (words[i++] !== "and") return none;
  }
}

/** The index of a quote that is not closed; -1: there is none. */
function openQuote(text: string): number {
  let open = -1;
  for (let i = 0; i < text.length; i++) {
    if (open >= 0 && text[i] === "\\") i++;
    else if (text[i] === '"') open = open < 0 ? i : -1;
  }
  return open;
}

/**
 * What may come next in the terms of a filter of the graphs of these statistics, as complete: a
 * field of any of them. values returns the values of a field, as far as they are known.
 */
export function completeTerms(
  text: string,
  cursor: number,
  stats: readonly Stat[],
  values: (field: string) => readonly string[] = () => [],
): Completion {
  const fields = new Map<string, Field>();
  const graphs = new Map<string, number>();
  for (const f of stats.flatMap((s) => s.fields ?? [])) {
    if (!fields.has(f.name)) fields.set(f.name, f);
    graphs.set(f.name, (graphs.get(f.name) ?? 0) + 1);
  }
  const all = [...fields.values()].map((f) => {
    const n = graphs.get(f.name)!;
    return n === stats.length ? f : { ...f, help: `${f.help}; of ${n} of ${stats.length} graphs` };
  });
  // The fields that narrow most graphs first.
  all.sort((a, b) => graphs.get(b.name)! - graphs.get(a.name)!);
  const any = { id: "x", help: "", fields: all } as unknown as Stat;
  const begin = "x where ";
  const c = complete(begin + text, begin.length + cursor, [any], 12, (_, field) => values(field));
  return { from: c.from - begin.length, to: c.to - begin.length, options: c.options };
}

/**
 * Those that have what was typed: at the start, then at the start of a part of the name, then
 * anywhere in it, then in their help.
 */
function rank(options: Option[], typed: string): Option[] {
  if (typed === "") return options;
  const want = typed.toLowerCase();
  const score = (o: Option): number => {
    const name = o.text.replace(/^"/, "").toLowerCase();
    if (name.startsWith(want)) return 0;
    if (name.includes(`.${want}`)) return 1;
    if (name.includes(want)) return 2;
    return o.help.toLowerCase().includes(want) ? 3 : 4;
  };
  return options
    .map((o) => ({ o, s: score(o) }))
    .filter((x) => x.s < 4 && x.o.text !== typed)
    .sort((a, b) => a.s - b.s)
    .map((x) => x.o);
}

/** The statistic of a sentence. */
export function statOf(sentence: string): string {
  return sentence.trim().split(/\s/, 1)[0] ?? "";
}

/**
 * The index in a JavaScript text of a byte of its UTF-8 form, which is what the server's positions
 * count.
 */
export function indexOfByte(text: string, byte: number): number {
  let bytes = 0;
  let index = 0;
  for (const c of text) {
    if (bytes >= byte) break;
    const code = c.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    index += c.length;
  }
  return index;
}
