// The ranges that were typed last, kept by this browser.

const key = "culprit.ranges";
const most = 8;

/** The texts, the newest first. */
export function recentRanges(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    if (!Array.isArray(kept)) return [];
    return kept.filter((x): x is string => typeof x === "string" && x.length < 200).slice(0, most);
  } catch {
    return []; // a browser that keeps nothing
  }
}

export function keepRange(text: string): void {
  try {
    const list = [text, ...recentRanges().filter((x) => x !== text)].slice(0, most);
    localStorage.setItem(key, JSON.stringify(list));
  } catch {
    // Then it is not offered again.
  }
}
