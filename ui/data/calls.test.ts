import { describe, expect, it } from "vitest";
import {
  byModule,
  callees,
  callers,
  foundIn,
  matched,
  matcher,
  narrowed,
  nodeOf,
  reversed,
  rowsOf,
  wayOf,
  without,
} from "./calls";
import { folded, listed } from "./folded";
import { type Calls, nameOf } from "./profile";

// copy is called from two places, walk calls itself.
const calls = folded(`
main;read;copy 3
main;write;copy 5
main;write 1
main;walk;walk;copy 2
idle 4
`);
const named = (c: Calls, name: string) =>
  Uint8Array.from(c.functions.names, (n) => (n === name ? 1 : 0));
const table = (c: Calls) => {
  const r = rowsOf(c);
  return Object.fromEntries(c.functions.names.map((n, i) => [n, [r.self[i], r.total[i]]]).slice(1));
};

describe("calls", () => {
  it("stand in the order of a walk, by name, with sums", () => {
    expect(listed(calls)).toEqual([
      "all 0 15",
      " idle 4 4",
      " main 0 11",
      "  read 0 3",
      "   copy 3 3",
      "  walk 0 2",
      "   walk 0 2",
      "    copy 2 2",
      "  write 1 6",
      "   copy 5 5",
    ]);
    expect([...calls.left]).toEqual([0, 0, 4, 4, 4, 7, 7, 7, 9, 9]);
    expect([...calls.end]).toEqual([10, 2, 10, 5, 5, 8, 8, 8, 10, 10]);
    expect(calls.deepest).toBe(4);
  });

  it("make a table in which what calls itself counts once", () => {
    expect(table(calls)).toEqual({
      idle: [4, 4],
      main: [0, 11],
      read: [0, 3],
      copy: [10, 10],
      write: [1, 6],
      walk: [0, 2],
    });
  });

  it("match each sample once", () => {
    const share = (text: string) => matched(calls, foundIn(calls.functions, matcher(text)!));
    expect(share("copy")).toBe(10);
    expect(share("WALK")).toBe(2);
    expect(share("/^(walk|write)$")).toBe(8);
    expect(share("/^w/")).toBe(8);
    expect(share("nothing")).toBe(0);
    expect(matcher("/(")).toBeNull();
    expect(matcher("a/b")!("x a/b")).toBe(true);
  });

  it("are narrowed to stacks that have functions, and have not", () => {
    expect(listed(narrowed(calls, [named(calls, "copy"), named(calls, "write")], []))).toEqual([
      "all 0 5",
      " main 0 5",
      "  write 0 5",
      "   copy 5 5",
    ]);
    expect(listed(narrowed(calls, [], [named(calls, "copy")]))).toEqual([
      "all 0 5",
      " idle 4 4",
      " main 0 1",
      "  write 1 1",
    ]);
    expect(listed(narrowed(calls, [named(calls, "read")], [named(calls, "copy")]))).toEqual([
      "all 0 0",
    ]);
    expect(narrowed(calls, [], []).total[0]).toBe(15);
    expect(without(calls, named(calls, "idle")).total[0]).toBe(11);
  });

  it("show who calls a function and what it calls", () => {
    expect(listed(callees(calls, named(calls, "walk")))).toEqual([
      "all 0 2",
      " walk 0 2",
      "  walk 0 2",
      "   copy 2 2",
    ]);
    expect(listed(callers(calls, named(calls, "copy")))).toEqual([
      "all 0 10",
      " copy 0 10",
      "  read 0 3",
      "   main 3 3",
      "  walk 0 2",
      "   walk 0 2",
      "    main 2 2",
      "  write 0 5",
      "   main 5 5",
    ]);
    // The outermost call of a function that calls itself.
    expect(listed(callers(calls, named(calls, "walk")))).toEqual([
      "all 0 2",
      " walk 0 2",
      "  main 2 2",
    ]);
  });

  it("are inverted without a loss", () => {
    const r = reversed(calls);
    expect(r.total[0]).toBe(15);
    expect(listed(r).filter((l) => /^ \S/.test(l))).toEqual([
      " copy 0 10",
      " idle 4 4",
      " write 0 1",
    ]);
  });

  it("are put together by module", () => {
    const c = byModule(
      folded(
        "nginx`main;nginx`work;libc`write;kernel`send;kernel`xmit 3\nnginx`main;libc`read 1\nnginx`main;plain;nginx`work 2\n",
      ),
    );
    expect(listed(c)).toEqual([
      "all 0 6",
      " nginx 0 6",
      "  libc 1 4",
      "   kernel 3 3",
      "  plain 0 2",
      "   nginx 2 2",
    ]);
  });

  it("keep what was before beside what is after", () => {
    const c = folded("main;a 1 4\nmain;gone 3 0\n");
    expect([...c.before!.total]).toEqual([4, 4, 1, 3]);
    expect([...c.total]).toEqual([4, 4, 4, 0]);
    expect([...rowsOf(c).before!.total]).toEqual([0, 4, 1, 3]);
    expect([...callers(c, named(c, "gone")).before!.total]).toEqual([3, 3, 3]);
    expect([...narrowed(c, [named(c, "gone")], []).before!.total]).toEqual([3, 3, 3]);
  });

  it("have a way to each node, the same in other calls", () => {
    const other = folded("main;write;copy 1\n");
    expect(nodeOf(calls, "")).toBe(0);
    for (let i = 0; i < calls.fn.length; i++) expect(nodeOf(calls, wayOf(calls, i))).toBe(i);
    const node = nodeOf(other, wayOf(calls, 9));
    expect(nameOf(other, node)).toBe("copy");
    expect(nodeOf(other, wayOf(calls, 1))).toBe(-1);
    expect(nodeOf(calls, "no such")).toBe(-1);
  });
});

// Many random stacks: the derived numbers must add up.
describe("sums", () => {
  it("stay", () => {
    let seed = 1;
    const random = (n: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 8) % n;
    };
    const lines: string[] = [];
    let whole = 0;
    for (let i = 0; i < 400; i++) {
      const amount = 1 + random(9);
      whole += amount;
      lines.push(
        `${Array.from({ length: 1 + random(9) }, () => `m${random(3)}\`f${random(7)}`).join(";")} ${amount}`,
      );
    }
    const c = folded(lines.join("\n"));
    expect(c.total[0]).toBe(whole);
    expect(reversed(c).total[0]).toBe(whole);
    expect(byModule(c).total[0]).toBe(whole);
    const rows = rowsOf(c);
    for (let f = 1; f < c.functions.names.length; f++) {
      const one = Uint8Array.from(c.functions.names, (_, i) => (i === f ? 1 : 0));
      expect(callers(c, one).total[0]).toBe(rows.total[f]);
      expect(callees(c, one).total[0]).toBe(rows.total[f]);
      expect(narrowed(c, [one], []).total[0]).toBe(rows.total[f]);
      expect(narrowed(c, [], [one]).total[0]).toBe(whole - rows.total[f]!);
      expect(matched(c, one)).toBe(rows.total[f]);
    }
    for (let i = 1; i < c.fn.length; i++) {
      const p = c.parent[i]!;
      expect(p).toBeLessThan(i);
      expect(c.end[i]!).toBeLessThanOrEqual(c.end[p]!);
      expect(c.left[i]!).toBeGreaterThanOrEqual(c.left[i - 1]!);
      expect(c.left[i]! + c.total[i]!).toBeLessThanOrEqual(c.left[p]! + c.total[p]!);
    }
  });
});
