import type { Missing } from "../../data/api";

/**
 * A line for each reason, with the checks that were not made for it. A check that is alone names
 * its statistic.
 */
export function notChecked(missing: readonly Missing[]): string[] {
  const reasons = new Map<string, Missing[]>();
  for (const m of missing) reasons.set(m.why, [...(reasons.get(m.why) ?? []), m]);
  return [...reasons].map(([why, all]) => {
    const [first] = all;
    if (first && all.length === 1 && first.statistic !== "")
      return `${first.checks}: not checked, ${first.statistic} is missing: ${why}`;
    const checks = [...new Set(all.map((m) => m.checks))].join(", ");
    return all.some((m) => m.statistic !== "")
      ? `${checks}: several statistics are missing: ${why}`
      : `${checks}: ${why}`;
  });
}
