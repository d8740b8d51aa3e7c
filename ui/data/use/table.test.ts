import { expect, it } from "vitest";
import { type Answer, idOf } from "../columns";
import { parse } from "../drill";
import { quoted } from "./devices";
import { last, most, there, used, worthShowing } from "./order";
import type { Asked, Use } from "./shapes";
import { levelOf, useTable } from "./table";

const nan = Number.NaN;

function answer(by: string[], rows: Record<string, number[]>, part: Partial<Answer> = {}): Answer {
  const cells = Object.values(rows)[0]?.length ?? 3;
  return {
    query: "",
    kind: "level",
    unit: "1",
    sparse: false,
    start: 0,
    step: 1000,
    elapsed: new Float64Array(cells).fill(1000),
    by,
    series: Object.entries(rows).map(([key, values]) => {
      const k = by.length === 0 ? [] : key.split("|");
      return { key: k, id: idOf(k), values: Float64Array.from(values), min: null, max: null };
    }),
    rows: Object.keys(rows).length,
    rest: null,
    loss: [],
    notes: [],
    ...part,
  } as Answer;
}

const row = (a: Asked, key: string, cpus = 2): Use =>
  useTable(a, cpus).rows.find((r) => r.key === key)!;
const cpu = answer(["mode"], {
  usr: [0.5, 2, nan],
  sys: [0.1, 0, nan],
  idle: [1.2, 0, nan],
  iowait: [0.2, 0, nan],
  irq: [nan, nan, nan],
});

it("takes what is missing of idle as busy, and knows nothing where nothing was measured", () => {
  const u = row({ cpu, runnable: answer([], { "": [1, 5, nan] }) }, "cpu");
  expect([...u.utilization.values]).toEqual([expect.closeTo(0.3, 9), 1, nan]);
  expect([...u.saturation.values]).toEqual([0, 3, nan]);
  expect(u.errors).toBeNull();
});

it("shows the busiest CPU of each moment", () => {
  const u = row(
    { cpu, cpus: answer(["cpu"], { "0": [0.1, 0.9, nan], "1": [0.4, 0.2, 1.01] }) },
    "cpu busiest",
  );
  expect([...u.utilization.values]).toEqual([0.4, 0.9, 1]);
});

it("has memory that is not available, of all", () => {
  const u = row(
    {
      cpu,
      memory: answer(["kind"], {
        total: [100, 100, 100],
        available: [75, 10, nan],
        free: [1, 1, 1],
      }),
      scan: answer([], { "": [0, nan, 5] }),
    },
    "memory",
  );
  expect([...u.utilization.values]).toEqual([0.25, 0.9, nan]);
  expect([...u.saturation.values]).toEqual([0, nan, 5]);
});

it("leaves out partitions, and cuts a disk's busy time at all of it", () => {
  const a = {
    cpu,
    disk: answer(["device"], { vda: [0.5, 1.02, 0], vda1: [1, 1, 1], vdb: [1, 1, 1] }),
    diskInfo: answer(["device", "kind"], {
      "vda|disk": [1, 1, 1],
      "vda1|partition": [1, 1, 1],
      "vdb|disk": [1, 1, 1],
    }),
  };
  expect([...row(a, "disk vda").utilization.values]).toEqual([0.5, 1, 0]);
  expect(
    useTable(a, 2)
      .rows.filter((r) => r.resource === "Disk")
      .map((r) => r.name),
  ).toEqual(["vda", "vdb"]);
  expect([...row(a, "disk vda").errors!.values]).toEqual([nan, nan, nan]);
});

it("takes the fuller direction of an interface, and both where one wire carries both", () => {
  const net = answer(["netns", "device", "direction"], {
    "|eth0|rx": [1e6, 0, nan],
    "|eth0|tx": [5e6, 5e6, 1e6],
    "|lo|rx": [9e9, 0, 0],
    "|lo|tx": [9e9, 0, 0],
  });
  const capacity = answer(["netns", "device", "direction"], {
    "|eth0|rx": [1e8, 1e8, 1e8],
    "|eth0|tx": [1e8, 1e8, nan],
  });
  const info = (duplex: string) =>
    answer(["netns", "device", "kind", "duplex"], {
      [`|eth0|ethernet|${duplex}`]: [1, 1, 1],
      "|lo|loopback|": [1, 1, 1],
    });
  const key = `net ${idOf(["", "eth0"])}`;
  expect([...row({ cpu, net, capacity, netInfo: info("full") }, key).utilization.values]).toEqual([
    0.4,
    0.4,
    nan,
  ]);
  expect([...row({ cpu, net, capacity, netInfo: info("half") }, key).utilization.values]).toEqual([
    0.48,
    0.4,
    nan,
  ]);
  expect([...row({ cpu, net, netInfo: info("full") }, key).utilization.values]).toEqual([
    nan,
    nan,
    nan,
  ]);
  expect(
    useTable({ cpu, net, netInfo: info("full") }, 2).rows.filter((r) => r.resource === "Network")
      .length,
  ).toBe(1);
});

it("asks for the rows of its own interface, with namespaces that hold one of the same name", () => {
  const net = answer(["netns", "device", "direction"], {
    "|eth0|rx": [1, 1, 1],
    "cl3|eth0|rx": [2, 2, 2],
  });
  for (const netns of ["", "cl3"]) {
    const u = row({ cpu, net }, `net ${idOf([netns, "eth0"])}`);
    for (const m of [u.utilization, u.saturation, u.errors!, ...u.carries.map((c) => c.metric)]) {
      expect(parse(m.sentence)?.where, m.sentence).toEqual([
        { field: "device", op: "=", values: ["eth0"] },
        { field: "netns", op: "=", values: [netns] },
      ]);
    }
  }
});

it("has what is gone last", () => {
  const disk = answer(["device"], {
    sda: [1, ...new Array(12).fill(nan)],
    sdb: new Array(13).fill(0),
  });
  const long = answer(["mode"], { usr: new Array(13).fill(1), idle: new Array(13).fill(1) });
  const t = useTable({ disk, cpu: long }, 2);
  expect(t.rows.filter((r) => r.resource === "Disk").map((r) => [r.name, there(r, t)])).toEqual([
    ["sdb", true],
    ["sda", false],
  ]);
});

it("puts unknown after known: the speed of an interface, the bytes of a disk", () => {
  const both = (rows: Record<string, number>) =>
    answer(
      ["netns", "device", "direction"],
      Object.fromEntries(
        Object.entries(rows).flatMap(([name, v]) =>
          ["rx", "tx"].map((d) => [`|${name}|${d}`, [v, v, v]]),
        ),
      ),
    );
  const idle = Object.fromEntries(Array.from({ length: 31 }, (_, i) => [`idle${i}`, 0]));
  const net = both({ ...idle, slow: 1e5, server: 16e6, other: 1e3, unseen: nan, half: 6.25e6 });
  const capacity = both({
    ...Object.fromEntries(Object.keys(idle).map((k) => [k, 1e8])),
    slow: 1e8,
    half: 1e8,
  });
  const t = useTable({ cpu, net, capacity }, 2);
  const rows = t.rows.filter((r) => r.resource === "Network");
  const names = rows.map((r) => r.name);
  expect(names.slice(0, 3)).toEqual(["half", "slow", "idle0"]);
  expect(names.slice(-3)).toEqual(["server", "other", "unseen"]);
  expect(rows.find((r) => r.name === "server")).toMatchObject({ about: "speed unknown" });
  expect(worthShowing(rows, t, 4).map((r) => r.name)).toEqual(["half", "slow", "server", "other"]);
  expect(worthShowing(rows, t, 1).map((r) => r.name)).toEqual(["half", "server"]);
  const quiet = useTable({ cpu, net: both(idle), capacity: both(idle) }, 2);
  expect(
    worthShowing(quiet.rows.slice(-31), quiet, 4).map((r) => r.name),
    "one is always there",
  ).toEqual(["idle0"]);

  const disk = answer(["device"], {
    aunknown: [nan, 0, nan],
    loop0: [0, 0, 0],
    vda: [0.001, 0, 0],
  });
  const diskBytes = answer(["device", "direction"], {
    "vda|write": [4096, 0, 0],
    "loop0|read": [0, 0, 0],
  });
  expect(
    useTable({ cpu, disk, diskBytes }, 2)
      .rows.filter((r) => r.resource === "Disk")
      .map((r) => r.name),
  ).toEqual(["vda", "loop0", "aunknown"]);
});

it("puts answers of other beginnings on one grid", () => {
  const late = answer([], { "": [7, 8, 9] }, { start: 1000 });
  expect([...row({ cpu, runnable: late }, "cpu").saturation.values]).toEqual([nan, 5, 6]);
  const early = answer([], { "": [7, 8, 9] }, { start: -2000 });
  expect([...row({ cpu, runnable: early }, "cpu").saturation.values]).toEqual([7, nan, nan]);
});

it("shows as now the newest that was measured, and nothing old", () => {
  expect(useTable({ cpu: { ...cpu, elapsed: Float64Array.from([1000, 1000, 0]) } }, 2).newest).toBe(
    1,
  );
  expect(useTable({ cpu }, 2).newest).toBe(1);
  expect(useTable({ cpu: { ...cpu, step: 10_000 } }, 2).newest).toBe(2);
  expect(useTable({}, 2)).toMatchObject({ cells: 0, newest: -1, rows: [] });
});

/** The value v in each of n seconds. */
const long = (n: number, v: number): number[] => new Array(n).fill(v);

it("is of one second: the newest that all answers have, the late ones too", () => {
  const busy = answer(["mode"], { usr: [...long(11, 2), 0.1], idle: [...long(11, 0), 1.9] });
  const runnable = answer([], { "": [...long(11, 9), nan] });
  runnable.elapsed[11] = 0; // its newest second is not in yet
  const t = useTable({ cpu: busy, runnable }, 2);
  expect(t.newest).toBe(10);
  expect(t.rows[0]!.utilization.values[t.newest]).toBe(1);
  expect(t.rows[0]!.saturation.values[t.newest]).toBe(7);
  // What has nothing for long is not waited for, and what it was is no state of now.
  const gone = answer([], { "": [...long(5, 9), ...long(7, nan)] });
  gone.elapsed.fill(0, 5);
  const later = useTable({ cpu: busy, runnable: gone }, 2);
  expect(later.newest).toBe(11);
  expect(levelOf(later.rows[0]!.saturation, later)).toBe("calm");
  const never = answer([], { "": [nan, nan, nan] }, { elapsed: new Float64Array(3) });
  expect(useTable({ cpu, oom: never }, 2).newest).toBe(1);
});

it("does not mark a queue of an instant while the CPUs are idle", () => {
  const runnable = answer([], { "": long(12, 9) });
  const level = (usr: number): string => {
    const a = { cpu: answer(["mode"], { usr: long(12, usr), idle: long(12, 2 - usr) }), runnable };
    const t = useTable(a, 2);
    return levelOf(t.rows[0]!.saturation, t);
  };
  expect(level(0.12)).toBe("calm");
  expect(level(0.89)).toBe("calm");
  expect(level(0.91), "all wait for one CPU").toBe("hot");
});

it("names the CPU that is the busiest in the second that is shown", () => {
  const cpus = answer(["cpu"], { "0": [0.1, 0.9, 0.1], "1": [0.4, 0.2, 0.8] });
  expect(useTable({ cpu, cpus }, 2).newest).toBe(1);
  expect(row({ cpu, cpus }, "cpu busiest").about).toBe("cpu 0");
});

it("names what the answers lack, once per reason", () => {
  const lossy = (events: number) =>
    answer([], { "": [1] }, { loss: [{ reason: "too late", events }] });
  expect(useTable({ cpu, runnable: lossy(2), oom: lossy(3) }, 2).losses).toEqual([
    { reason: "too late", events: 3 },
  ]);
});

it("colours a state, not a moment", () => {
  const m = {
    values: new Float64Array(20),
    unit: "ratio",
    what: "",
    sentence: "",
    warm: 0.7,
    hot: 0.9,
    top: 1,
  };
  m.values[19] = 1;
  expect(levelOf(m, { newest: 19, step: 1000 })).toBe("calm");
  expect(levelOf(m, { newest: 19, step: 10_000 })).toBe("hot");
  m.values.fill(1, 10);
  m.values[19] = 0.8;
  expect(levelOf(m, { newest: 19, step: 1000 }), "less now").toBe("warm");
  m.values.fill(0.8, 10);
  expect(levelOf(m, { newest: 19, step: 1000 })).toBe("warm");
  m.values[19] = 0.1;
  expect(levelOf(m, { newest: 19, step: 1000 }), "over").toBe("calm");
  expect(
    levelOf(
      { ...m, warm: Number.MIN_VALUE, hot: Number.MIN_VALUE, values: Float64Array.from([1, 0, 0]) },
      { newest: 2, step: 1000 },
    ),
    "an error",
  ).toBe("hot");
  m.values.fill(nan);
  expect(levelOf(m, { newest: 19, step: 1000 })).toBe("calm");
});

it("knows what did anything", () => {
  const quiet = row({ cpu, disk: answer(["device"], { vda: [0, 0, nan] }) }, "disk vda");
  expect(used(quiet)).toBe(false);
  expect(used(row({ cpu, disk: answer(["device"], { vda: [0, 0.1, nan] }) }, "disk vda"))).toBe(
    true,
  );
  expect([last([1, nan]), most([nan, 2, 1]), most([])]).toEqual([1, 2, nan]);
});

it("quotes what the grammar would not take bare", () => {
  expect([quoted("eth0"), quoted("a b"), quoted('a"\\'), quoted("in"), quoted("")]).toEqual([
    "eth0",
    '"a b"',
    '"a\\"\\\\"',
    '"in"',
    '""',
  ]);
});

/** Marks rows of an answer by id. */
function odd(a: Answer, scores: Record<string, number>, median = 7): Answer {
  for (const s of a.series) {
    const score = scores[s.key.join("|")];
    if (score !== undefined) s.unlike = { score, median, others: 9 };
  }
  return a;
}

it("puts devices unlike the others first, the furthest of them first, and shows them all the same", () => {
  const busy: Record<string, number[]> = { idle: [0] };
  const bytes: Record<string, number[]> = {};
  for (let n = 1; n <= 9; n++) busy[`sd${n}`] = [n / 10];
  for (const d of Object.keys(busy)) bytes[`${d}|write`] = [d === "idle" ? 0 : 1000];
  const t = useTable(
    {
      cpu: answer(["mode"], { idle: [1] }),
      disk: odd(answer(["device"], busy), { sd2: 8, idle: -7 }),
      diskBytes: odd(answer(["device", "direction"], bytes, { unit: "B/s" }), {
        "idle|write": -100,
        "sd2|write": 7,
      }),
    },
    2,
  );
  const disks = t.rows.filter((r) => r.resource === "Disk");
  expect(disks.slice(0, 4).map((r) => r.name)).toEqual(["idle", "sd2", "sd9", "sd8"]);
  expect(disks[0]!.odd).toEqual({
    what: "bytes write",
    unit: "B/s",
    unlike: { score: -100, median: 7, others: 9 },
  });
  expect(disks[1]!.odd?.what).toBe("utilization");
  expect(disks[2]!.odd).toBeNull();
  expect(worthShowing(disks, t, 2).map((r) => r.name)).toEqual(["idle", "sd2", "sd9", "sd8"]);
  expect(worthShowing(disks, t, 1).map((r) => r.name)).toEqual(["idle", "sd9"]);
});

it("marks an interface by the quantity in which it differs most, in its own namespace only", () => {
  const rows = { "a|eth0|rx": [5], "b|eth0|rx": [5] };
  const by = ["netns", "device", "direction"];
  const t = useTable(
    {
      cpu: answer(["mode"], { idle: [1] }),
      net: odd(answer(by, rows, { unit: "B/s" }), { "b|eth0|rx": 9 }),
      capacity: odd(answer(by, rows, { unit: "bit/s" }), { "b|eth0|rx": -12 }),
    },
    2,
  );
  const of = (name: string): Use => t.rows.find((r) => r.name === name)!;
  expect(of("a/eth0").odd).toBeNull();
  expect(of("b/eth0").odd?.what).toBe("capacity rx");
});

it("does not mark what works among idle ones, but what has errors among those without", () => {
  const of = (median: number): Use | undefined => {
    const devices = { "a|eth0|rx": [999] };
    const t = useTable(
      {
        cpu: answer(["mode"], { idle: [1] }),
        net: odd(answer(["netns", "device", "direction"], devices), { "a|eth0|rx": 50 }, median),
        netErrors: odd(answer(["netns", "device"], { "a|eth0": [3] }), { "a|eth0": 8 }, 0),
      },
      2,
    );
    return t.rows.find((r) => r.resource === "Network");
  };
  expect(of(9.98)?.odd?.what).toBe("errors");
  expect(of(10)?.odd?.what).toBe("bytes rx");
});

it("marks the busiest CPU only if it is the one that differs", () => {
  const cpus = (): Answer => answer(["cpu"], { "0": [0, 0.9, 0.1], "1": [1, 0.1, 1] });
  expect(row({ cpu, cpus: odd(cpus(), { "0": 9 }) }, "cpu busiest").odd?.what).toBe("busy time");
  expect(row({ cpu, cpus: odd(cpus(), { "1": 9 }) }, "cpu busiest").odd).toBeNull();
});
