// The colours of a flame graph: a hue for each kind of code, a shade for each module; of a
// comparison, orange for more and blue for less.

import type { Calls, Functions } from "../data/profile";
import { luminance } from "./flame";

/** What a legend names: the kinds of code, and the idle. */
export const legend = ["program", "kernel", "JIT", "inlined", "process", "idle"] as const;

/** Hue and saturation of each: those of Okabe and Ito, calmed. */
const hues: readonly (readonly [number, number])[] = [
  [203, 52],
  [33, 62],
  [158, 48],
  [322, 34],
  [210, 9],
  [210, 5],
];

/** Functions that a CPU is in while it has nothing to do. */
const idle =
  /^(do_idle|cpu_startup_entry|cpuidle_\w+|default_idle\w*|native_safe_halt|pv_native_safe_halt|mwait_idle\w*|intel_idle\w*|acpi_idle\w*|acpi_safe_halt|arch_cpu_idle\w*|poll_idle|call_cpuidle|haltpoll_enter_idle|swapper(\/\d+)?|idle)$/;

const known = new WeakMap<Functions, Uint8Array>();

/** Of each function its place in legend. */
export function classesOf(f: Functions): Uint8Array {
  let out = known.get(f);
  if (!out) {
    out = Uint8Array.from(f.names, (name, i) =>
      idle.test(name.endsWith("]") ? name.replace(/_\[[kji]\]$/, "") : name) ? 5 : f.kind[i]!,
    );
    known.set(f, out);
  }
  return out;
}

/** The place in legend of a function. */
export function classOf(f: Functions, fn: number): number {
  return classesOf(f)[fn]!;
}

/** A colour for each function: 0xAABBGGRR. */
export function functionColours(f: Functions, dark: boolean): Uint32Array {
  const out = new Uint32Array(f.names.length);
  const classes = classesOf(f);
  const modules = f.modules.map(hash);
  const shades = new Map<number, number>(); // there are few
  for (let i = 0; i < out.length; i++) {
    const tilt = (modules[f.module[i]!]! % 7) - 3;
    const light = (hash(f.names[i]!) % 5) - 2;
    const key = (classes[i]! * 7 + tilt + 3) * 5 + light + 2;
    let colour = shades.get(key);
    if (colour === undefined) {
      colour = shade(classes[i]!, tilt, light, dark);
      shades.set(key, colour);
    }
    out[i] = colour;
  }
  if (out.length > 0) out[0] = shade(4, 0, 0, dark);
  return out;
}

/** The colour of a legend's entry. */
export function legendColour(kind: number, dark: boolean): number {
  return shade(kind, 0, 0, dark);
}

function shade(kind: number, tilt: number, light: number, dark: boolean): number {
  const [h, s] = hues[kind] ?? hues[0]!;
  const rest = kind >= 4;
  // Dark enough, or light enough, that a name can be read on it: 4.5 to 1.
  return dark
    ? hsl(h + (rest ? 0 : tilt * 4), s, (rest ? 26 : 30) + light * 1.4)
    : hsl(h + (rest ? 0 : tilt * 4), s + 8, (rest ? 84 : 78) + light * 1.6);
}

/**
 * A colour for each node of a comparison: orange has more than before, blue less, the stronger the
 * larger its change beside the largest.
 */
export function changeColours(c: Calls, dark: boolean): Uint32Array {
  const out = new Uint32Array(c.fn.length);
  const before = c.before;
  if (!before) return out;
  let most = 0;
  for (let i = 1; i < out.length; i++)
    most = Math.max(most, Math.abs(c.total[i]! - before.total[i]!));
  const steps = 24;
  const scale = Uint32Array.from({ length: 2 * steps + 1 }, (_, i) =>
    changeColour((i - steps) / steps, dark),
  );
  for (let i = 0; i < out.length; i++) {
    const v = most > 0 ? (c.total[i]! - before.total[i]!) / most : 0;
    // By the root, as most changes are small beside the largest.
    const by = i === 0 ? 0 : Math.sign(v) * Math.sqrt(Math.abs(v));
    out[i] = scale[Math.round(by * steps) + steps]!;
  }
  return out;
}

/** The colour of a change from -1 to 1. */
export function changeColour(by: number, dark: boolean): number {
  const size = Math.min(1, Math.abs(by));
  const hue = by > 0 ? 22 : 208;
  return dark ? hsl(hue, 12 + 62 * size, 22 + 14 * size) : hsl(hue, 10 + 75 * size, 90 - 24 * size);
}

function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h ^ (h >>> 15)) >>> 0;
}

/** A colour of hue (degrees), saturation and lightness (per cent), as the bytes of a pixel. */
export function hsl(h: number, s: number, l: number): number {
  const a = (s / 100) * Math.min(l / 100, 1 - l / 100);
  const part = (n: number) => {
    const k = (n + h / 30 + 12) % 12;
    return Math.round(255 * (l / 100 - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return (0xff000000 | (part(4) << 16) | (part(8) << 8) | part(0)) >>> 0;
}

/** How much two colours stand out from each other: 1 to 21. */
export function contrast(a: number, b: number): number {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p) as [number, number];
  return (x + 0.05) / (y + 0.05);
}

/** A pixel's bytes as CSS says a colour. */
export function css(colour: number): string {
  return `rgb(${colour & 255} ${(colour >>> 8) & 255} ${(colour >>> 16) & 255})`;
}
