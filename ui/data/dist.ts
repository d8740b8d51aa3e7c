// Distributions as the server sends them: counts in log-linear buckets, each power of two cut into
// 2^base of them; see measure.Dist.

export interface Dist {
  base: number;
  /** The number of the bucket of counts[0]. */
  first: number;
  counts: number[];
  sum: number;
}

/** The smallest value of a bucket. It ends before the next one's. */
export function bucketStart(base: number, bucket: number): number {
  const cut = 2 ** base;
  if (bucket < 2 * cut) return Math.max(bucket, 0);
  const power = Math.floor(bucket / cut) - 1;
  return (cut + (bucket % cut)) * 2 ** power;
}

/** How many values there are. */
export function count(d: Dist): number {
  return d.counts.reduce((n, c) => n + c, 0);
}

/**
 * The value below which a share of the values lies, linear within a bucket; NaN when there is none.
 */
export function quantile(d: Dist, share: number): number {
  const want = share * count(d);
  let seen = 0;
  for (const [i, c] of d.counts.entries()) {
    if (c > 0 && seen + c >= want) {
      const from = bucketStart(d.base, d.first + i);
      return from + ((bucketStart(d.base, d.first + i + 1) - from) * (want - seen)) / c;
    }
    seen += c;
  }
  return Number.NaN;
}

/**
 * All of them together; null when there is none. They are of one base, as those of one statistic
 * are.
 */
export function merge(all: readonly (Dist | null | undefined)[]): Dist | null {
  const there = all.filter((d) => d != null);
  if (there.length === 0) return null;
  const first = Math.min(...there.map((d) => d.first));
  const counts = new Array<number>(
    Math.max(...there.map((d) => d.first + d.counts.length)) - first,
  ).fill(0);
  let sum = 0;
  for (const d of there) {
    for (const [i, c] of d.counts.entries()) counts[d.first - first + i]! += c;
    sum += d.sum;
  }
  return { base: there[0]!.base, first, counts, sum };
}

/**
 * What a chart shows of a distribution in each cell: the mean, and the least and greatest that its
 * buckets allow.
 */
export function lines(
  dists: readonly (Dist | null)[],
  cells: number,
): { values: Float64Array; min: Float64Array; max: Float64Array } {
  const empty = () => new Float64Array(cells).fill(Number.NaN);
  const out = { values: empty(), min: empty(), max: empty() };
  for (const [i, d] of dists.entries()) {
    const n = d ? count(d) : 0;
    if (!d || n === 0 || i >= cells) continue;
    out.values[i] = d.sum / n;
    out.min[i] = bucketStart(d.base, d.first + d.counts.findIndex((c) => c > 0));
    out.max[i] = bucketStart(d.base, d.first + d.counts.findLastIndex((c) => c > 0) + 1);
  }
  return out;
}

/**
 * The buckets as a few bars, each of a power of two (or of one number, where they are that fine),
 * without gaps.
 */
export function bars(d: Dist): { from: number; to: number; count: number }[] {
  const cut = 2 ** d.base;
  const group = (bucket: number) =>
    bucket < cut
      ? bucket === 0
        ? 0
        : 1 + Math.floor(Math.log2(bucket))
      : Math.floor(bucket / cut) + d.base;
  const out: { from: number; to: number; count: number }[] = [];
  let was = -1;
  for (const [i, c] of d.counts.entries()) {
    const bucket = d.first + i;
    const g = group(bucket);
    const to = bucketStart(d.base, bucket + 1);
    if (g === was) {
      const last = out[out.length - 1]!;
      last.to = to;
      last.count += c;
    } else out.push({ from: g === 0 ? 0 : 2 ** (g - 1), to, count: c });
    was = g;
  }
  for (const b of out) if (b.from > 0) b.to = b.from * 2;
  while (out.length > 0 && out[0]!.count === 0) out.shift();
  while (out.length > 0 && out[out.length - 1]!.count === 0) out.pop();
  return out;
}
