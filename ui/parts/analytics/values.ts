// The values of a field, for completion.

import { bytes } from "../../data/client";
import { binaryType, fromBinary } from "../../data/columns";
import { print } from "../../data/drill";
import type { Moments } from "../../state/time";

/** The most values of one statistic: the largest of the time. */
const most = 200;

/**
 * The values that a field of a statistic has in a time, the largest first; none where they can't be
 * had: what may be typed is not limited to them. host is a host of the engine.
 */
export async function valuesOf(
  stat: string,
  field: string,
  { from, to }: Moments,
  host: string,
): Promise<string[]> {
  const step = Math.max(1, Math.ceil((to - from) / 1000)) * 1000;
  const params = {
    q: print({ stat, by: [field], where: [] }),
    from: Math.round(from),
    to: Math.round(to),
    step,
    top: most,
    host: host === "" ? undefined : host,
  };
  try {
    const a = fromBinary(await (await bytes("ask", params, binaryType)).arrayBuffer());
    return a.series.map((s) => s.key[0] ?? "");
  } catch {
    return [];
  }
}
