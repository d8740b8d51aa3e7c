/**
 * How well what was typed fits a name and its help: 0 = not at all. All words must be somewhere;
 * beginnings of the parts of an identifier will do.
 */
export function closeness(typed: string, name: string, help: string): number {
  if (typed === "") return 1;
  const n = name.toLowerCase();
  const h = help.toLowerCase();
  const id = (n.split(" ")[0] ?? "").split(/[.\-_/]/).slice(0, 8);
  let score = 0;
  for (const word of typed.toLowerCase().split(/\s+/)) {
    if (n === word) score += 100;
    else if (n.startsWith(word)) score += 50;
    else if (n.split(/[.\s_]/).some((part) => part.startsWith(word))) score += 30;
    else if (n.includes(word)) score += 20;
    else if (h.includes(word)) score += 5;
    else if (word.length >= 3 && word.length <= 8 && beginnings(word, id)) score += 2;
    else return 0;
  }
  return score - n.length / 1000;
}

/**
 * Whether letters are beginnings of the parts of a name, in order: "ndb" and "nedeby" of
 * net.device.bytes. Letters anywhere would find most words in most names.
 */
function beginnings(letters: string, parts: readonly string[]): boolean {
  if (letters === "") return true;
  return parts.some((part, i) => {
    for (let n = 1; n <= letters.length && part.startsWith(letters.slice(0, n)); n++)
      if (beginnings(letters.slice(n), parts.slice(i + 1))) return true;
    return false;
  });
}
