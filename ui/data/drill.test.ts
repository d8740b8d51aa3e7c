import { describe, expect, it } from "vitest";
import type { Stat } from "./api";
import { addsUp, drills, parse, print, wholeOf, widerText } from "./drill";

const stat = (id: string, fields: string, fold = "sum", help = ""): Stat => ({
  id,
  kind: "delta",
  unit: "B",
  rate_unit: "B/s",
  fold,
  may: { sum: fold === "sum", stack: fold === "sum", rate: true, percentile: false },
  folded: "all",
  sparse: false,
  help,
  fields:
    fields === ""
      ? []
      : fields.split(",").map((name) => ({
          name,
          type: name === "pid" ? "number" : "word",
          unit: "",
          help: `the ${name}`,
        })),
});
const overlapping = (s: Stat, field: string): Stat => ({
  ...s,
  fields: (s.fields ?? []).map((f) => (f.name === field ? { ...f, overlaps: true } : f)),
});
const stats = [
  stat("cpu.time", "cpu,mode"),
  stat("disk.bytes", "device,direction"),
  overlapping(stat("memory.size", "kind,node"), "kind"),
  stat("net.device.bytes", "netns,device,direction", "sum", "bytes through a device"),
  stat("net.device.packets", "netns,device,direction"),
  stat("net.qdisc.drops", "netns,device,kind,handle,parent"),
  {
    ...stat("process.cpu", "pid,process,mode"),
    whole: { sentence: "cpu.time", rest: "in no row" },
  },
  stat("process.io", "pid,process,direction"),
  stat("tcp.flow.rtt", "peer,process", "mean"),
];
describe("a sentence", () => {
  it("comes back as the server prints it", () => {
    for (const [text, want] of [
      ["net.device.bytes", "net.device.bytes"],
      [
        "net.device.bytes by device,direction where device != lo",
        'net.device.bytes by device,direction where device != "lo"',
      ],
      [
        ' cpu.time   by cpu , mode where cpu<=3 and mode ~ "so*"',
        'cpu.time by cpu,mode where cpu <= 3 and mode ~ "so*"',
      ],
      [
        'x by a where b in (1,"two \\"2\\"", three) and c == ""',
        'x by a where b in (1, "two \\"2\\"", "three") and c = ""',
      ],
      [
        "tcp.flow.rtt by peer where peer = 10.2.0.103:2049",
        'tcp.flow.rtt by peer where peer = "10.2.0.103:2049"',
      ],
    ] as const) {
      const q = parse(text);
      expect(q && print(q)).toBe(want);
      expect(parse(want)).toEqual(q);
    }
    for (const wrong of [
      "",
      "a by",
      "a by b,",
      "a where b",
      "a where b =",
      "a where b in (1",
      "a b",
      "a where b ! 3",
    ])
      expect(parse(wrong), wrong).toBeNull();
  });

  it("leads on from a row to all else that is known of it", () => {
    const q = parse('net.device.bytes by device where direction = "rx"')!;
    const found = drills(q, ["eth0"], stats);
    expect(found[0]).toEqual({
      title: "by netns for device eth0",
      sentence: 'net.device.bytes by netns where direction = "rx" and device = "eth0"',
      same: true,
      wider: [],
    });
    expect(found.map((d) => d.sentence)).toContain(
      'net.device.packets by netns where direction = "rx" and device = "eth0"',
    );
    expect(found.every((d) => !d.sentence.startsWith("disk."))).toBe(true);
    const p = drills(parse("process.cpu by process")!, ["nginx"], stats);
    expect(p.map((d) => d.sentence)).toEqual([
      'process.cpu by pid where process = "nginx"',
      'process.cpu by mode where process = "nginx"',
      'process.io by direction where process = "nginx"',
      'tcp.flow.rtt by peer where process = "nginx"',
    ]);
  });

  it("says whether its rows may be stacked", () => {
    const find = (id: string) => stats.find((s) => s.id === id);
    const of = (text: string): boolean => {
      const q = parse(text)!;
      return addsUp(q, find(q.stat));
    };
    expect(of("net.device.bytes by device")).toBe(true);
    expect(of("net.device.bytes")).toBe(false);
    expect(of("tcp.flow.rtt by peer")).toBe(false);
    expect(of("memory.size by kind")).toBe(false);
    expect(of("memory.size by node")).toBe(false);
    expect(of("memory.size by node where kind = anon")).toBe(true);
    expect(of("unknown by kind")).toBe(false);
    const whole = (text: string) => {
      const q = parse(text)!;
      return wholeOf(q, find(q.stat));
    };
    expect(whole("process.cpu by process")).toEqual({ sentence: "cpu.time", rest: "in no row" });
    for (const none of [
      "process.cpu",
      'process.cpu by process where mode = "sys"',
      "disk.bytes by device",
      "unknown by kind",
    ])
      expect(whole(none), none).toBeNull();
  });

  it("keeps a row's namespace and the graph's terms in another statistic, and names what it lacks", () => {
    const all = [
      ...stats,
      stat("net.device.speed", "netns,device", "max"),
      stat("tcp.flow.bytes", "netns,peer,direction"),
      stat("tcp.flow.delivery", "netns,local,peer", "max"),
    ];
    const to = (id: string, text: string, ...key: string[]) =>
      drills(parse(text)!, key, all).find((d) => d.sentence.startsWith(id))!;
    const speed = to(
      "net.device.speed",
      "net.device.bytes by netns,device,direction",
      "cl3",
      "eth0",
      "rx",
    );
    expect(speed.sentence).toBe('net.device.speed where netns = "cl3" and device = "eth0"');
    expect(speed.title).toContain('not narrowed by direction = "rx"');
    expect(widerText(speed.wider)).toBe('not narrowed by direction = "rx"');
    expect(widerText([])).toBe("");
    // From there to a statistic that has the direction.
    const packets = drills(parse(speed.sentence)!, [], all, speed.wider).find((d) =>
      d.sentence.startsWith("net.device.packets"),
    );
    expect(packets?.sentence).toBe(
      'net.device.packets where netns = "cl3" and device = "eth0" and direction = "rx"',
    );
    expect(packets?.wider).toEqual([]);
    // A device of each namespace is a row of its own.
    const each = drills(parse("net.device.bytes by direction")!, ["rx"], all);
    expect(each.map((d) => d.sentence)).toContain(
      'net.device.bytes by netns,device where direction = "rx"',
    );
    const own = to("net.device.speed", "net.device.bytes by netns,device", "", "eth0");
    expect(own.sentence).toBe('net.device.speed where netns = "" and device = "eth0"');
    const flow = to("tcp.flow.delivery", 'tcp.flow.bytes by peer where netns = "srv"', "10.0.0.3");
    expect(flow.sentence).toContain('netns = "srv"');
  });

  it("carries each term to each other statistic, or names it", () => {
    for (const own of stats) {
      const by = (own.fields ?? []).map((f) => f.name);
      const q = {
        stat: own.id,
        by,
        where: by.map((field) => ({ field, op: "!=", values: ["other"] })),
      };
      for (const d of drills(q, by, stats).filter((x) => !x.same)) {
        for (const field of by) {
          const carried = parse(d.sentence)!.where.some(
            (t) => t.field === field && t.op === "=" && t.values[0] === field,
          );
          expect(carried || d.title.includes(`${field} = "${field}"`), `${field}: ${d.title}`).toBe(
            true,
          );
        }
      }
    }
  });
});
