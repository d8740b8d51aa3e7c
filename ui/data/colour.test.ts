import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { assign, colours, grey, placeOf } from "./colour";

describe("colours", () => {
  it("of a value are those of its hash", () => {
    expect(assign(["eth0"])).toEqual([placeOf("eth0")]);
    expect(placeOf("eth0")).not.toBe(placeOf("eth1"));
  });

  it("of modes of CPUs do not depend on the other modes in sight", () => {
    const modes = ["sys", "usr", "nice", "soft", "steal", "iowait", "irq", "unaccounted"];
    const alone = modes.map((m) => assign([m])[0]!);
    expect(new Set(alone).size).toBe(modes.length);
    for (const others of [["guest", "guest_nice"], ["idle"], ["a", "b"]])
      for (let n = 1; n + others.length <= colours; n++) {
        const got = assign([...others, ...modes.slice(0, n)]).slice(others.length);
        expect(got, `${others} and ${n} modes`).toEqual(alone.slice(0, n));
      }
  });

  it("differ within a graph, for any eight values", () => {
    for (let n = 0; n < 200; n++) {
      const values = Array.from({ length: 12 }, (_, i) => `v${n * 31 + i}`);
      const got = assign(values);
      expect(new Set(got.slice(0, colours)).size).toBe(colours);
      expect(got.slice(colours)).toEqual([grey, grey, grey, grey]);
    }
  });

  it("are equal for two viewers whose rows have another order", () => {
    const values = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const got = assign(values);
    expect(assign([...values].reverse())).toEqual([...got].reverse());
  });
});

/** The parts of a colour in light, 0 to 1. */
function linear(hex: string): number[] {
  return [1, 3, 5].map((i) => {
    const c = Number.parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
}

/** A colour in OKLab (Ottosson 2020): the distance of two colours is how different they look. */
function oklab([r, g, b]: number[]): number[] {
  const l = Math.cbrt(0.4122214708 * r! + 0.5363325363 * g! + 0.0514459929 * b!);
  const m = Math.cbrt(0.2119034982 * r! + 0.6806995451 * g! + 0.1073969566 * b!);
  const s = Math.cbrt(0.0883024619 * r! + 0.2817188376 * g! + 0.6299787005 * b!);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** How people without one kind of cones see light (Machado 2009), and who sees all. */
const sights: [string, number, number[][]][] = [
  [
    "all cones",
    0.15,
    [
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ],
  ],
  [
    "protanopia",
    0.09,
    [
      [0.152286, 1.052583, -0.204868],
      [0.114503, 0.786281, 0.099216],
      [-0.003882, -0.048116, 1.051998],
    ],
  ],
  [
    "deuteranopia",
    0.09,
    [
      [0.367322, 0.860646, -0.227968],
      [0.280085, 0.672501, 0.047413],
      [-0.01182, 0.04294, 0.968881],
    ],
  ],
  [
    "tritanopia",
    0.04,
    [
      [1.255528, -0.076749, -0.178779],
      [-0.078411, 0.930809, 0.147602],
      [0.004733, 0.691367, 0.3039],
    ],
  ],
];

it.each(sights)("has no near twins among its colours, dark and light: %s", (_, far, sight) => {
  const css = readFileSync(new URL("../parts/page.css", import.meta.url), "utf8");
  const all = [...css.matchAll(/--c[0-7]: (#[0-9a-f]{6});/g)].map((m) => m[1]!);
  expect(all).toHaveLength(2 * colours);
  const seen = (hex: string): number[] => {
    const light = linear(hex);
    return sight.map((row) =>
      Math.min(
        1,
        Math.max(
          0,
          row.reduce((sum, v, k) => sum + v * light[k]!, 0),
        ),
      ),
    );
  };
  for (const theme of [all.slice(0, colours), all.slice(colours)]) {
    const places = theme.map((hex) => oklab(seen(hex)));
    let least = Infinity;
    places.forEach((a, i) => {
      for (const b of places.slice(0, i))
        least = Math.min(least, Math.hypot(...a.map((v, k) => v - b[k]!)));
    });
    expect(least).toBeGreaterThan(far);
  }
});
