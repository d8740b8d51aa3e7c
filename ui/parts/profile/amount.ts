// How the amounts of a profile are said.

import type { Calls, Profile } from "../../data/profile";
import { digits, humane } from "../../data/units";

const minus = "\u2212";

/** An amount: "413 samples", "2.9 ms"; of a comparison by shares "4.13 %". */
export function amount(p: Pick<Profile, "unit" | "share">, v: number): string {
  if (p.share) return share(v, 1);
  if (p.unit === "ns" || p.unit === "nanoseconds") return humane(v, "ns");
  if (p.unit === "bytes") return humane(v, "B");
  return `${plain(v)} ${v === 1 && p.unit.endsWith("s") ? p.unit.slice(0, -1) : p.unit}`;
}

/** A number as it stands in a column: all digits of a whole one, four that count of a fraction. */
export function plain(v: number): string {
  return digits(Number.isInteger(v) ? v : Number(v.toPrecision(4)));
}

/** An amount in a column: without the unit where it is the same in all rows. */
export function cell(p: Pick<Profile, "unit" | "share">, v: number): string {
  return p.share || p.unit === "ns" || p.unit === "nanoseconds" || p.unit === "bytes"
    ? amount(p, v)
    : plain(v);
}

/** A share of a whole: "4.13 %"; "–" of nothing. */
export function share(v: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const p = (100 * v) / whole;
  const size = Math.abs(p);
  const sign = p < 0 ? minus : "";
  if (size === 0) return "0 %";
  if (size < 0.005) return `${sign}<0.01 %`;
  return `${sign}${size >= 99.995 ? size.toFixed(0) : size.toFixed(2)} %`;
}

/** A change with its sign. */
export function change(p: Pick<Profile, "unit" | "share">, v: number): string {
  return v === 0 ? "0" : (v > 0 ? "+" : minus) + amount(p, Math.abs(v)).replace(/^<?/, (s) => s);
}

/** What a node has, in words. */
export function describeCall(p: Profile, c: Calls, node: number): string {
  const whole = c.total[0]!;
  const with_ = c.total[node]!;
  const own = c.self[node]!;
  const both = `${amount(p, with_)}${p.share ? "" : `, ${share(with_, whole)}`}, of it ${p.share ? share(own, 1) : `${cell(p, own)}, ${share(own, whole)},`} in itself`;
  if (!c.before) return both;
  const was = c.before.total[node]!;
  return `${amount(p, was)} before, ${amount(p, with_)} after: ${change(p, with_ - was)}; in itself ${change(p, own - c.before.self[node]!)}`;
}
