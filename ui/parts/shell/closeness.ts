/**
 * How well what was typed fits a name and its help: 0 = not at all. All words must be somewhere;
 * letters in order will do in the name.
 */
export function closeness(typed: string, name: string, help: string): number {
  if (typed === "") return 1;
  const n = name.toLowerCase();
  const h = help.toLowerCase();
  let score = 0;
  for (const word of typed.toLowerCase().split(/\s+/)) {
    if (n === word) score += 100;
    else if (n.startsWith(word)) score += 50;
    else if (n.split(/[.\s_]/).some((part) => part.startsWith(word))) score += 30;
    else if (n.includes(word)) score += 20;
    else if (h.includes(word)) score += 5;
    else if (word.length >= 3 && inOrder(word, n)) score += 2;
    else return 0;
  }
  return score - n.length / 1000;
}

function inOrder(letters: string, text: string): boolean {
  let at = 0;
  for (const c of letters) {
    at = text.indexOf(c, at) + 1;
    if (at === 0) return false;
  }
  return true;
}
