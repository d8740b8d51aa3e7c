import type { Missing } from "../../data/api";

/**
 * A line for each thing that was not checked and each reason, however many statistics are missing
 * for it.
 */
export function notChecked(missing: readonly Missing[]): string[] {
  const lines: string[] = [];
  const seen = new Map<string, number>();
  for (const m of missing) {
    const key = `${m.checks}\n${m.why}`;
    const at = seen.get(key);
    if (at !== undefined && m.statistic !== "") {
      lines[at] = `${m.checks}: several statistics are missing: ${m.why}`;
      continue;
    }
    seen.set(key, lines.length);
    lines.push(
      m.statistic === ""
        ? `${m.checks}: ${m.why}`
        : `${m.checks}: not checked, ${m.statistic} is missing: ${m.why}`,
    );
  }
  return lines;
}
