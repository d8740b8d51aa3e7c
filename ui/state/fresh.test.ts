import { describe, expect, it } from "vitest";
import type { Past } from "../data/api";
import { Fresh, remembered } from "./fresh";

const cpu = { id: "cpu-saturated", claim: "the CPUs are busy" };
const disk = { id: "disk-slow", claim: "the disk is slow" };

describe("new findings", () => {
  it("are those that were not there shortly before", () => {
    const f = new Fresh();
    expect(f.take([cpu], 0)).toEqual([]);
    expect(f.take([cpu, disk], 10)).toEqual([disk]);
    expect(f.take([disk], 20)).toEqual([]);
    // One that comes and goes is no news; after a while it is.
    expect(f.take([cpu], 10 + remembered - 1)).toEqual([]);
    expect(f.take([], 10 + 2 * remembered)).toEqual([]);
    expect(f.take([cpu], 11 + 2 * remembered)).toEqual([cpu]);
  });

  it("are all, where the first diagnosis had none", () => {
    const f = new Fresh();
    expect(f.take([], 0)).toEqual([]);
    expect(f.take([cpu, disk], 1)).toEqual([cpu, disk]);
  });

  it("are confirmed, where the server decides, and new again after it has withdrawn them", () => {
    const known = (confirmed: boolean) => ({ ...cpu, past: { confirmed } as Past });
    const f = new Fresh();
    expect(f.take([], 0, [])).toEqual([]);
    expect(f.take([known(false)], 10, [])).toEqual([]);
    expect(f.take([known(true)], 20, [])).toEqual([known(true)]);
    expect(f.take([], 30, [cpu])).toEqual([]);
    expect(f.take([known(true)], 40, [])).toEqual([]);
    expect(f.take([], 50, [])).toEqual([]);
    expect(f.take([known(true)], 60, [])).toEqual([known(true)]);
  });
});
