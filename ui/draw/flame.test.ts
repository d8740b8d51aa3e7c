import { describe, expect, it } from "vitest";
import { folded } from "../data/folded";
import { type Calls, callsOf } from "../data/profile";
import {
  bytes,
  faded,
  fitted,
  inkOn,
  type Labels,
  lastAt,
  luminance,
  nodeAt,
  paint,
  rowAt,
  rowsIn,
  shortName,
} from "./flame";
import {
  changeColour,
  changeColours,
  classOf,
  contrast,
  functionColours,
  hsl,
  legend,
  legendColour,
} from "./flame-colours";

const calls = folded("a;b 6\na;c;d 2\na 2\ne 10\n");

function picture(c: Calls, from: number, to: number, width: number, first = 0, end = 5): string[] {
  const out = new Uint32Array(width * (end - first));
  const labels: Labels = { node: [], from: [], to: [] };
  paint(c, { from, to }, width, first, end, (i) => i + 1, 999, 1, 4, out, labels);
  const rows: string[] = [];
  for (let r = 0; r < end - first; r++) {
    rows.push(
      [...out.subarray(r * width, (r + 1) * width)]
        .map((v) =>
          v === 0 ? "." : v === 999 ? ":" : v === 1 ? "*" : c.functions.names[c.fn[v - 1]!]![0],
        )
        .join(""),
    );
  }
  return rows;
}

describe("the flame graph", () => {
  it("puts what is called below its caller, as wide as its amount", () => {
    expect(picture(calls, 0, 20, 20)).toEqual([
      "********************",
      "aaaaaaaaa.eeeeeeeeee",
      "bbbbb.cc............",
      "......dd............",
      "....................",
    ]);
  });

  it("shows a part of the whole, with all callers", () => {
    expect(picture(calls, 6, 8, 8)).toEqual([
      "********",
      "aaaaaaaa",
      "cccccccc",
      "dddddddd",
      "........",
    ]);
    expect(picture(calls, 4, 12, 8)).toEqual([
      "********",
      "aaaaa.ee",
      "bbcc....",
      "..dd....",
      "........",
    ]);
    expect(picture(calls, 4, 12, 8, 2, 4)).toEqual(["bbcc....", "..dd...."]);
  });

  it("marks calls that are too narrow, and does not walk into them", () => {
    const c = folded(
      `${Array.from({ length: 100 }, (_, i) => `m;f${String(i).padStart(3, "0")};deep 1`).join("\n")}\nz 300`,
    );
    const rows = picture(c, 0, 400, 40);
    expect(rows[1]).toBe("mmmmmmmmm.zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    expect(rows[2]).toBe("::::::::::..............................");
    expect(rows[3]).toBe(".".repeat(40));
    expect(rowsIn(c, { from: 0, to: 400 }, 40)).toBe(2);
    expect(rowsIn(c, { from: 0, to: 10 }, 40)).toBe(4);
  });

  it("is the same of a sketch, in which narrow calls beside each other are one", () => {
    const few = (letter: string) =>
      Array.from({ length: 100 }, (_, i) => `m;${letter}${String(i).padStart(3, "0")};deep 1`).join(
        "\n",
      );
    const whole = folded(`${few("f")}\nm;g 100\n${few("h")}\nz 100`);
    const names = whole.functions.names;
    const [m, g, z] = ["m", "g", "z"].map((n) => names.indexOf(n)) as [number, number, number];
    const sketch = callsOf(
      whole.functions,
      Uint32Array.of(0, m, 0, g, 0, z),
      Int32Array.of(-1, 0, 1, 1, 1, 0),
      Float64Array.of(0, 0, 100, 100, 100, 100),
    );
    for (const [from, to] of [
      [0, 400],
      [50, 350],
      [150, 160],
    ] as const) {
      expect(picture(sketch, from, to, 40)).toEqual(picture(whole, from, to, 40));
      expect(rowsIn(sketch, { from, to }, 40)).toBe(rowsIn(whole, { from, to }, 40));
    }
    const at = (x: number, row: number) => nodeAt(sketch, { from: 0, to: 400 }, 40, x, row);
    expect([at(5, 1), at(5, 2), at(15, 2), at(25, 2), at(35, 1), at(35, 0)]).toEqual([
      1, -1, 3, -1, 5, 0,
    ]);
  });

  it("finds what is pointed at", () => {
    const at = (x: number, row: number, from = 0, to = 20) => {
      const n = nodeAt(calls, { from, to }, 20, x, row);
      return n < 0 ? "" : n === 0 ? "all" : calls.functions.names[calls.fn[n]!];
    };
    expect([
      at(0, 0),
      at(1, 1),
      at(1, 2),
      at(6.5, 2),
      at(6.5, 3),
      at(9, 2),
      at(15, 1),
      at(15, 2),
      at(5, 7),
    ]).toEqual(["all", "a", "b", "c", "d", "", "e", "", ""]);
    expect(at(10, 3, 6, 8)).toBe("d");
  });

  // Each pixel is that of the call which is found there.
  it("draws what it finds, for random calls", () => {
    let seed = 7;
    const random = (n: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 8) % n;
    };
    const lines = Array.from(
      { length: 300 },
      () =>
        `${Array.from({ length: 1 + random(6) }, () => `f${random(5)}`).join(";")} ${1 + random(40)}`,
    );
    const c = folded(lines.join("\n"));
    const whole = c.total[0]!;
    for (const [from, to] of [
      [0, whole],
      [whole * 0.2, whole * 0.25],
      [whole * 0.7, whole],
    ] as const) {
      const width = 300;
      const out = new Uint32Array(width * 8);
      paint(c, { from, to }, width, 0, 8, (i) => i + 1, 0xffffffff, 0, 1e9, out, {
        node: [],
        from: [],
        to: [],
      });
      const k = width / (to - from);
      for (let row = 0; row < 8; row++) {
        for (let x = 0; x < width; x++) {
          const v = out[row * width + x]!;
          const node = nodeAt(c, { from, to }, width, x + 0.5, row);
          if (v === 0 || v === 0xffffffff) {
            if (node >= 0) expect(c.total[node]! * k).toBeLessThan(1.5);
          } else {
            expect(c.depth[v - 1]).toBe(row);
            // At an edge a pixel may be that of the neighbour.
            const begin = (c.left[v - 1]! - from) * k;
            expect(begin).toBeLessThan(x + 1.01);
            expect(begin + c.total[v - 1]! * k).toBeGreaterThan(x - 1.01);
          }
        }
      }
    }
  });

  it("searches the left edges", () => {
    expect(lastAt(Float64Array.from([0, 0, 4, 4, 9]), 4)).toBe(3);
    expect(lastAt(Float64Array.from([0, 0, 4, 4, 9]), 3)).toBe(1);
    expect(lastAt(Float64Array.from([0]), 3)).toBe(0);
  });

  it("knows the row at a height, with the root above or below", () => {
    const s = { height: 180, dpr: 1 };
    expect(rowAt({ up: false, bare: false, scroll: 0 }, s, 20, 19)).toBe(1);
    expect(rowAt({ up: false, bare: false, scroll: 36 }, s, 20, 19)).toBe(3);
    expect(rowAt({ up: true, bare: false, scroll: 180 }, s, 20, 179)).toBe(0);
    expect(rowAt({ up: true, bare: false, scroll: 0 }, s, 3, 179)).toBe(0);
    expect(rowAt({ up: false, bare: true, scroll: 0 }, s, 20, 19)).toBe(2);
    expect(rowAt({ up: true, bare: true, scroll: 0 }, s, 3, 179)).toBe(1);
  });

  it("cuts names that are too wide", () => {
    const one = () => 5;
    expect(fitted("function", 40, one)).toBe("function");
    expect(fitted("function", 39, one)).toBe("functi…");
    expect(fitted("function", 15, one)).toBe("fu…");
    expect(fitted("function", 14, one)).toBe("");
    expect(fitted("", 14, one)).toBe("");
  });

  it("keeps the distinctive part of a long name", () => {
    expect(
      [
        "cmd/compile/internal/gc.compile",
        "std::vector<a::b>::push",
        "a::b::c",
        "(anonymous namespace)::f",
        "plain",
        "a/",
        "main.(*T).f",
      ].map(shortName),
    ).toEqual(["gc.compile", "vector<a::b>::push", "c", "f", "plain", "a/", "main.(*T).f"]);
  });
});

describe("the colours", () => {
  const f = folded(
    "nginx`main;libc`write;kernel`tcp_sendmsg 1\nswapper;kernel`do_idle 1\nkernel`cpuidle_enter_[k] 1",
  ).functions;
  it("let names be read on them: 4.5 to 1", () => {
    for (const dark of [true, false]) {
      const all = [
        ...functionColours(f, dark),
        ...legend.map((_, i) => legendColour(i, dark)),
        ...[-1, -0.5, 0, 0.5, 1].map((v) => changeColour(v, dark)),
        ...Array.from(
          { length: 300 },
          (_, i) =>
            functionColours(
              {
                ...f,
                names: ["", `n${i}`],
                module: new Uint32Array([0, 1]),
                modules: ["", `m${i}`],
                kind: new Uint8Array([0, i % 5]),
              },
              dark,
            )[1]!,
        ),
      ];
      for (const c of all) expect(contrast(c, bytes(inkOn(c)))).toBeGreaterThanOrEqual(4.5);
    }
  });
  it("tell kinds of code apart, and the idle", () => {
    expect(f.names.slice(1).map((_, i) => legend[classOf(f, i + 1)])).toEqual([
      "program",
      "program",
      "kernel",
      "idle",
      "idle",
      "idle",
    ]);
  });
  it("say more and less by sides", () => {
    const c = folded("a;more 1 5\na;less 6 2\nsame 3 3\n");
    const colours = changeColours(c, true);
    const of = (name: string) =>
      colours[Array.from(c.fn).findIndex((fn) => c.functions.names[fn] === name)]!;
    const red = (v: number) => v & 255;
    const blue = (v: number) => (v >>> 16) & 255;
    expect(red(of("more"))).toBeGreaterThan(blue(of("more")));
    expect(blue(of("less"))).toBeGreaterThan(red(of("less")));
    expect(of("same")).toBe(colours[0]);
  });
  it("are bytes of pixels", () => {
    expect(bytes("#010203")).toBe(0xff030201);
    expect(hsl(0, 100, 50)).toBe(0xff0000ff);
    expect(hsl(120, 100, 50)).toBe(0xff00ff00);
    expect(luminance(0xffffffff)).toBeCloseTo(1);
    expect(faded(0xffffffff, 0xff000000)).toBe(0xff4d4d4d);
  });
});
