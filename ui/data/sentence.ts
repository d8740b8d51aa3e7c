// What may come next in a sentence. The server is the judge of what is right; this only helps to
// type it.
//
//   sentence = stat [ "by" field { "," field } ] [ "where" term { "and" term } ]

import type { Stat } from "./api";

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
  const part = /[^\s,()=<>~!"]*$/.exec(before)?.[0] ?? "";
  const from = cursor - part.length;
  const rest = /^[^\s,()=<>~!"]*/.exec(text.slice(cursor))?.[0] ?? "";
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
    values(stat.id, field).map((v) => ({ text: v, help: "" }));
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

/**
 * Those that have what was typed: at the start, then at the start of a part of the name, then
 * anywhere in it, then in their help.
 */
function rank(options: Option[], typed: string): Option[] {
  if (typed === "") return options;
  const want = typed.toLowerCase();
  const score = (o: Option): number => {
    const name = o.text.toLowerCase();
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
