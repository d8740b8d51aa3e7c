// What a profile can be compared with.

import type { Kept } from "../../data/api";
import { day, hour } from "../../state/time";
import { nameOf, type Stretch, stretchOf, whoseOf } from "./seconds";

/** A profile to compare with. */
export interface Other {
  id: string;
  text: string;
}

const moved = (s: Stretch, by: number): Stretch => ({ from: s.from - by, to: s.to - by });

/** Of recorded samples: other times of the same threads, and other threads of the same time. */
export function otherTimes(id: string): Other[] {
  const s = stretchOf(id);
  if (!s) return [];
  const whose = whoseOf(id);
  const length = s.to - s.from;
  const out: Other[] = [{ id: nameOf(moved(s, length), whose), text: "the same length before it" }];
  for (const [by, text] of [
    [hour, "an hour earlier"],
    [day, "a day earlier"],
    [7 * day, "a week earlier"],
  ] as const)
    if (by > length && s.from >= by) out.push({ id: nameOf(moved(s, by), whose), text });
  if (whose !== "") out.push({ id: nameOf(s), text: "the whole machine at the same time" });
  return out;
}

/** Kept profiles of the same unit, which can be compared; and those of another unit. */
export function keptOthers(id: string, unit: string, kept: readonly Kept[]): Kept[] {
  return kept.filter((k) => k.id !== id && k.unit === unit);
}
