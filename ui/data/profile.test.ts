import { describe, expect, it } from "vitest";
import { callsOf, kindOf, placeOf, profileOf, profileSoon } from "./profile";

/** The format of docs/FORMATS.md, written by hand. */
function written(
  change: (head: Record<string, unknown>) => void = () => {},
  flags = 0,
  version = 1,
): ArrayBuffer {
  const head: Record<string, unknown> = {
    unit: "samples",
    share: false,
    samples: 7,
    seconds: 0,
    depth: 2,
    nodes: 4,
    functions: 4,
    notes: ["lost: none"],
    names: ["all", "idle", "main", "copy"],
    modules: ["", "libc"],
    files: ["", "a.c"],
  };
  change(head);
  const json = new TextEncoder().encode(JSON.stringify(head));
  const begin = (12 + json.length + 7) & ~7;
  const nodes = (begin + 4 * 13 + 7) & ~7;
  const b = new ArrayBuffer(nodes + 4 * (flags & 1 ? 24 : 16));
  const v = new DataView(b);
  [0x43, 0x4c, 0x50, 0x46, version, 0, flags, 0].forEach((n, i) => {
    v.setUint8(i, n);
  });
  v.setUint32(8, json.length, true);
  new Uint8Array(b, 12).set(json);
  v.setUint32(begin + 12, 1, true); // copy is in libc
  v.setUint32(begin + 16 + 12, 1, true); // and in a.c
  v.setUint32(begin + 32 + 12, 9, true);
  v.setUint8(begin + 48 + 1, 1); // idle is the kernel's
  [0, 1, 2, 3].forEach((f, i) => {
    v.setUint32(nodes + 4 * i, f, true);
  });
  [0, 1, 2, 1].forEach((up, i) => {
    v.setUint32(nodes + 16 + 4 * i, up, true);
  });
  [0, 2, 1, 4].forEach((self, i) => {
    v.setFloat64(nodes + 32 + 8 * i, self, true);
    if (flags & 1) v.setFloat64(nodes + 64 + 8 * i, i, true);
  });
  return b;
}

describe("a profile in columns", () => {
  it("is read", () => {
    const p = profileOf(written());
    expect([...p.parent]).toEqual([-1, 0, 0, 2]);
    expect([...p.total]).toEqual([7, 2, 5, 4]);
    expect([...p.left]).toEqual([0, 0, 2, 2]);
    expect([...p.depth]).toEqual([0, 1, 1, 2]);
    expect(p.deepest).toBe(2);
    expect(p.before).toBeNull();
    expect(kindOf(p.functions, 1)).toBe("kernel");
    expect(placeOf(p.functions, 3)).toBe("libc a.c:9");
    expect(placeOf(p.functions, 2)).toBe("");
    expect(p.notes).toEqual(["lost: none"]);
  });

  it("of a comparison has what was before", () => {
    const p = profileOf(written((h) => (h.norm = "Normalised per sample"), 1));
    expect([...p.before!.total]).toEqual([6, 1, 5, 3]);
    expect(p.norm).toBe("Normalised per sample");
  });

  it("of a sketch says of how many", () => {
    expect(profileOf(written()).of).toBe(0);
    expect(profileOf(written((h) => (h.of = 70_000), 2)).of).toBe(70_000);
  });

  it("is the same when it is read between other work, and ends when nobody waits", async () => {
    expect(await profileSoon(written((h) => (h.norm = "per sample"), 1))).toEqual(
      profileOf(written((h) => (h.norm = "per sample"), 1)),
    );
    await expect(profileSoon(written(), AbortSignal.abort())).rejects.toThrow();
    await expect(profileSoon(written().slice(0, 40))).rejects.toThrow("truncated");
  });

  it("of more nodes than are worked on at once has sums and edges", () => {
    const n = 200_000;
    const functions = profileOf(written()).functions;
    // A caller, its callee beside a leaf, and again: depth and places go on from slice to slice.
    const parent = Int32Array.from({ length: n }, (_, i) =>
      i === 0 ? -1 : i % 2 === 1 ? Math.max(0, i - 2) : i - 1,
    );
    const order = callsOf(
      functions,
      new Uint32Array(n).fill(1).fill(0, 0, 1),
      parent,
      new Float64Array(n).fill(1),
      new Float64Array(n).fill(2),
    );
    const deep = new Uint32Array(n);
    for (let i = 1; i < n; i++) deep[i] = deep[parent[i]!]! + 1;
    const total = new Float64Array(n).fill(1);
    for (let i = n - 1; i > 0; i--) total[parent[i]!]! += total[i]!;
    expect(order.total[0]).toBe(n);
    expect(order.before!.total[0]).toBe(2 * n);
    expect(order.deepest).toBe(deep.reduce((a, b) => Math.max(a, b), 0));
    expect(order.total.every((v, i) => v === total[i])).toBe(true);
    expect(order.depth.every((v, i) => v === deep[i])).toBe(true);
    for (let i = 1; i < n; i++) {
      const p = parent[i]!;
      if (
        !(
          order.left[i]! >= order.left[p]! &&
          order.left[i]! + total[i]! <= order.left[p]! + total[p]!
        )
      )
        throw new Error(`${i} is not in its caller`);
    }
  });

  it("is refused when it is no profile, of a later version, or cut off", () => {
    const whole = written();
    for (const n of [0, 5, 12, 40, whole.byteLength - 8])
      expect(() => profileOf(whole.slice(0, n))).toThrow();
    expect(() => profileOf(written(() => {}, 0, 2))).toThrow("newer version");
    expect(() => profileOf(written(() => {}, 16))).toThrow("newer version");
    expect(() => profileOf(written((h) => (h.nodes = 5)))).toThrow("truncated");
    expect(() => profileOf(new TextEncoder().encode("<!doctype html>").buffer)).toThrow(
      "not culprit",
    );
  });
});
