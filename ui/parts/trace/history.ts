// The programs that this browser has run, newest first. They are kept by the browser alone.

export interface Ran {
  at: number;
  text: string;
}

const key = "culprit.trace.history";
const most = 40;
const longest = 16_384;

/** Reads the kept programs; none where the browser keeps nothing, or has something else there. */
export function history(store: Pick<Storage, "getItem"> | null): Ran[] {
  try {
    const list: unknown = JSON.parse(store?.getItem(key) ?? "[]");
    if (!Array.isArray(list)) return [];
    return list
      .filter(
        (r): r is Ran =>
          typeof r === "object" &&
          r !== null &&
          typeof r.at === "number" &&
          typeof r.text === "string",
      )
      .slice(0, most);
  } catch {
    return [];
  }
}

/** Keeps a program as the newest; an equal one before it goes. */
export function remember(
  store: Pick<Storage, "getItem" | "setItem"> | null,
  text: string,
  at: number,
): Ran[] {
  if (text.length > longest) return history(store);
  const list = [{ at, text }, ...history(store).filter((r) => r.text !== text)].slice(0, most);
  try {
    store?.setItem(key, JSON.stringify(list));
  } catch {
    // It is full, or keeps nothing.
  }
  return list;
}

/** A line by which a program is known. */
export function title(text: string): string {
  const line = text
    .replace(/\/\*[\s\S]*?\*\//g, " ")
    .split("\n")
    .filter((l) => !l.startsWith("#"))
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();
  return line.length > 70 ? `${line.slice(0, 69)}…` : line;
}
