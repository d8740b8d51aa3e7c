// Utilization, saturation and errors of every resource, worked out of answers as `culprit use`,
// `disk` and `nic` do it. Pure.

import { type Answer, type Column, idOf, type Loss, type Unlike } from "./columns";
import { mean } from "./series";
import { humane } from "./units";

/** The queries of a USE table. */
export const asks = {
  cpu: "cpu.time by mode",
  cpus: "cpu.time by cpu where mode != idle and mode != iowait",
  runnable: "sched.runnable",
  load: "sched.load by window",
  memory: "memory.size by kind",
  scan: "memory.scan",
  swapOut: "memory.swap where direction = out",
  oom: "memory.oom",
  pressure: "pressure.time by resource where scope = some",
  disk: "disk.busy by device",
  queue: "disk.queue by device",
  diskBytes: "disk.bytes by device,direction",
  diskErrors: "disk.errors by device",
  diskInfo: "disk.info by device,kind",
  net: "net.device.bytes by netns,device,direction",
  capacity: "net.device.capacity by netns,device,direction",
  netInfo: "net.device.info by netns,device,kind,duplex",
  drops: "net.device.drops by netns,device",
  fifo: "net.device.fifo by netns,device",
  // A classful qdisc also counts the drops of its children.
  qdisc: "net.qdisc.drops by netns,device where parent = root",
  netErrors: "net.device.errors by netns,device",
} as const;

export type Asked = { -readonly [K in keyof typeof asks]?: Answer };

/** How bad a value is: nothing to see, high, full. */
export type Level = "calm" | "warm" | "hot";

/** One number over the time, NaN where it was not measured. */
export interface Metric {
  values: Float64Array;
  unit: string;
  /** What it is, in a few words. */
  what: string;
  /** The sentence that shows it in the worksheet. */
  sentence: string;
  warm: number;
  hot: number;
  /** The value that is full; NaN when nothing is. */
  top: number;
}

/** One resource. A value is null where no statistic measures it. */
export interface Use {
  resource: "CPU" | "Memory" | "Disk" | "Network";
  /** Of a device; "" of the resource as a whole. */
  name: string;
  /** Size or kind: "2 CPUs", "1 Gbit/s". */
  about: string;
  /** Key of the row, the same as long as the thing is there. */
  key: string;
  utilization: Metric;
  saturation: Metric;
  errors: Metric | null;
  stalled: Metric | null;
  /** What it carries: load, bytes. */
  carries: { name: string; metric: Metric }[];
  /** In what it differs most from the others of its kind; null where it does not. */
  odd: Odd | null;
}

/** A quantity in which a device differs from the others. */
export interface Odd {
  what: string;
  unit: string;
  unlike: Unlike;
}

export interface UseTable {
  start: number;
  step: number;
  cells: number;
  /** The cell that is shown as now; -1 when there is none. */
  newest: number;
  rows: Use[];
  /**
   * What the answers are known to lack, by its reason, with the most events that one of them says.
   */
  losses: Loss[];
}

/** A moment is no state: what is coloured was so in the mean of this time, in milliseconds. */
const lasting = 10_000;

/**
 * The level of a number now: it is so, and was so in the mean of the last ten seconds. Of what
 * should not be at all - errors, drops - the mean alone counts: a moment of it is to be seen.
 * Unknown is calm.
 */
export function levelOf(m: Metric, table: Pick<UseTable, "newest" | "step">): Level {
  const cells = Math.max(1, Math.round(lasting / table.step));
  let sum = 0;
  let n = 0;
  for (let c = Math.max(0, table.newest - cells + 1); c <= table.newest; c++) {
    const v = m.values[c]!;
    if (Number.isNaN(v)) continue;
    sum += v;
    n++;
  }
  const mean = n > 0 ? sum / n : Number.NaN;
  const now = m.values[table.newest]!;
  const least = m.warm > Number.MIN_VALUE && now < mean ? now : mean;
  return least >= m.hot ? "hot" : least >= m.warm ? "warm" : "calm";
}

/** How old a number may be that is shown as now, in milliseconds. */
const stale = 5000;

/**
 * The table of the answers, on the grid of the CPU time's. An answer that is missing leaves its
 * numbers unknown.
 */
export function useTable(a: Asked, cpus: number): UseTable {
  const grid = a.cpu ?? Object.values(a).find((x) => x !== undefined);
  if (!grid) return { start: 0, step: 1000, cells: 0, newest: -1, rows: [], losses: [] };
  const cells = grid.elapsed.length;
  const w = new Work(grid.start, grid.step, cells);
  const rows = [...cpuRows(w, a, cpus), memoryRow(w, a), ...diskRows(w, a), ...netRows(w, a)];
  // The newest that was measured; where that reading has nothing of the CPUs, one of the few
  // seconds before, if it has.
  let newest = cells - 1;
  while (newest >= 0 && !(grid.elapsed[newest]! > 0)) newest--;
  const busy = rows[0]!.utilization.values;
  for (let c = newest; c >= 0 && (newest - c) * grid.step <= stale; c--) {
    if (!Number.isNaN(busy[c]!)) {
      newest = c;
      break;
    }
  }
  const losses = new Map<string, number>();
  for (const x of Object.values(a))
    for (const l of x?.loss ?? [])
      losses.set(l.reason, Math.max(losses.get(l.reason) ?? 0, l.events));
  return {
    start: grid.start,
    step: grid.step,
    cells,
    newest,
    rows,
    losses: [...losses].map(([reason, events]) => ({ reason, events })),
  };
}

/** Columns of one grid. */
class Work {
  constructor(
    readonly start: number,
    readonly step: number,
    readonly cells: number,
  ) {}

  none(): Float64Array {
    return new Float64Array(this.cells).fill(Number.NaN);
  }

  /** A column of an answer, laid on this grid. */
  lay(a: Answer, values: Column): Float64Array {
    const out = this.none();
    const shift = Math.round((this.start - a.start) / this.step);
    for (let c = 0; c < this.cells; c++) {
      const v = values[c + shift];
      if (v !== undefined) out[c] = v;
    }
    return out;
  }

  /** The rows of an answer by their keys, laid on this grid. */
  rows(a: Answer | undefined): Map<string, Float64Array> {
    const out = new Map<string, Float64Array>();
    for (const s of a?.series ?? []) out.set(s.id, this.lay(a!, s.values));
    return out;
  }

  /** One row; all unknown when it is not there. */
  one(a: Answer | undefined, ...key: string[]): Float64Array {
    const id = idOf(key);
    const s = a?.series.find((x) => x.id === id);
    return s ? this.lay(a!, s.values) : this.none();
  }

  each(f: (c: number) => number): Float64Array {
    const out = new Float64Array(this.cells);
    for (let c = 0; c < this.cells; c++) out[c] = f(c);
    return out;
  }

  /** The sum of what is known; unknown where nothing is. */
  sum(list: Float64Array[]): Float64Array {
    return this.each((c) => {
      let s = Number.NaN;
      for (const l of list) {
        const v = l[c]!;
        if (!Number.isNaN(v)) s = Number.isNaN(s) ? v : s + v;
      }
      return s;
    });
  }
}

function metric(
  values: Float64Array,
  unit: string,
  what: string,
  sentence: string,
  warm = Number.NaN,
  hot = Number.NaN,
  top = Number.NaN,
): Metric {
  return { values, unit, what, sentence, warm, hot, top };
}

/** Others that do less than this share of the work of a thing are idle, and no peers of it. */
const idle = 0.01;

/**
 * In what each thing differs most from the others, over the answers that measure it; each has words
 * for its quantity. The first fields of a key, as many as width, name the thing. Of quantities of
 * work the one that works among idle ones is not marked: the disk of a machine among loop devices.
 */
function oddOf(
  width: number,
  work: readonly [Answer | undefined, string][],
  other: readonly [Answer | undefined, string][] = [],
): Map<string, Odd> {
  const out = new Map<string, Odd>();
  for (const [a, words] of [...work, ...other]) {
    const works = work.some(([x]) => x === a);
    for (const s of a?.series ?? []) {
      if (!s.unlike) continue;
      if (works && s.unlike.median < idle * mean(s.values, a!.elapsed)) continue;
      const id = idOf(s.key.slice(0, width));
      const best = out.get(id);
      if (best && Math.abs(best.unlike.score) >= Math.abs(s.unlike.score)) continue;
      const what = [words, ...s.key.slice(width)].join(" ");
      out.set(id, { what, unit: a!.unit, unlike: s.unlike });
    }
  }
  return out;
}

/** A share of a capacity: high from 70 %, full from 90 %. */
function share(
  values: Float64Array,
  what: string,
  sentence: string,
  warm = 0.7,
  hot = 0.9,
): Metric {
  return metric(values, "ratio", what, sentence, warm, hot, 1);
}

/** The share of time in which some task waited. */
function stalled(w: Work, a: Asked, resource: string): Metric | null {
  if (!a.pressure || a.pressure.series.length === 0) return null;
  return metric(
    w.one(a.pressure, resource),
    "ratio",
    `time in which some task waited for ${resource}`,
    asks.pressure,
    0.1,
    0.4,
    1,
  );
}

function cpuRows(w: Work, a: Asked, cpus: number): Use[] {
  const modes = w.rows(a.cpu);
  const whole = w.sum([...modes.values()]);
  const idle = w.sum([modes.get("idle") ?? w.none(), modes.get("iowait") ?? w.none()]);
  const runnable = w.one(a.runnable);
  const rows: Use[] = [
    {
      resource: "CPU",
      name: "",
      about: `${cpus} CPU${cpus === 1 ? "" : "s"}`,
      key: "cpu",
      // The modes of a CPU sum to the time: what is missing of idle is busy.
      utilization: share(
        w.each((c) =>
          whole[c]! > 0 ? 1 - (Number.isNaN(idle[c]!) ? 0 : idle[c]!) / whole[c]! : Number.NaN,
        ),
        "all CPUs, not idle",
        asks.cpu,
      ),
      saturation: metric(
        w.each((c) => Math.max(0, runnable[c]! - cpus)),
        "tasks",
        "runnable tasks beyond the number of CPUs",
        asks.runnable,
        1,
        Math.max(2, cpus),
      ),
      errors: null,
      stalled: stalled(w, a, "cpu"),
      carries: [
        {
          name: "load",
          metric: metric(w.one(a.load, "1m"), "1", "load average of one minute", asks.load),
        },
      ],
      odd: null,
    },
  ];
  if (a.cpus && a.cpus.series.length > 1) {
    const each = w.rows(a.cpus);
    const most = w.none();
    let busiest = "";
    for (const [cpu, values] of each) {
      for (let c = 0; c < w.cells; c++) {
        if (values[c]! > most[c]! || (Number.isNaN(most[c]!) && !Number.isNaN(values[c]!))) {
          most[c] = values[c]!;
          if (c === w.cells - 1) busiest = cpu;
        }
      }
    }
    rows.push({
      resource: "CPU",
      name: "busiest",
      about: busiest === "" ? "" : `cpu ${busiest}`,
      key: "cpu busiest",
      // One thread fills one CPU on a healthy machine: high at most.
      utilization: share(
        w.each((c) => Math.min(1, most[c]!)),
        "the busiest CPU at each moment",
        asks.cpus,
        0.95,
        Number.NaN,
      ),
      saturation: metric(w.none(), "tasks", "", "sched.runwait by cpu"),
      errors: null,
      stalled: null,
      carries: [],
      odd: oddOf(1, [[a.cpus, "busy time"]]).get(busiest) ?? null,
    });
  }
  return rows;
}

function memoryRow(w: Work, a: Asked): Use {
  const total = w.one(a.memory, "total");
  const available = w.one(a.memory, "available");
  const size = last(total);
  return {
    resource: "Memory",
    name: "",
    about: humane(size, "B"),
    key: "memory",
    utilization: share(
      w.each((c) => 1 - available[c]! / total[c]!),
      "memory not available to programs",
      asks.memory,
      0.9,
      0.97,
    ),
    saturation: metric(
      w.sum([w.one(a.scan), w.one(a.swapOut)]),
      "B/s",
      "memory scanned to free pages, and swapped out",
      asks.scan,
      1,
      10 * 2 ** 20,
    ),
    errors: metric(
      w.one(a.oom),
      "event/s",
      "out-of-memory kills",
      asks.oom,
      Number.MIN_VALUE,
      Number.MIN_VALUE,
    ),
    stalled: stalled(w, a, "memory"),
    carries: [
      {
        name: "used",
        metric: metric(
          w.each((c) => total[c]! - available[c]!),
          "B",
          "total minus available",
          asks.memory,
          Number.NaN,
          Number.NaN,
          size,
        ),
      },
    ],
    odd: null,
  };
}

function diskRows(w: Work, a: Asked): Use[] {
  const kinds = new Map<string, string>();
  for (const s of a.diskInfo?.series ?? []) kinds.set(s.key[0]!, s.key[1]!);
  const busy = w.rows(a.disk);
  const queue = w.rows(a.queue);
  const errors = w.rows(a.diskErrors);
  const work: [Answer | undefined, string][] = [
    [a.disk, "utilization"],
    [a.queue, "requests waiting"],
    [a.diskBytes, "bytes"],
  ];
  const odd = oddOf(1, work, [[a.diskErrors, "errors"]]);
  const out: Use[] = [];
  for (const [device, values] of busy) {
    const kind = kinds.get(device) ?? "";
    if (kind === "partition") continue;
    const where = `where device = ${quoted(device)}`;
    out.push({
      resource: "Disk",
      name: device,
      about: kind === "disk" ? "" : kind,
      key: `disk ${device}`,
      utilization: share(
        w.each((c) => Math.min(1, values[c]!)),
        "time with a request in flight",
        `disk.busy by device ${where}`,
      ),
      saturation: metric(
        queue.get(device) ?? w.none(),
        "requests",
        "mean number of requests waiting or in flight",
        `disk.queue by device ${where}`,
        2,
        8,
      ),
      errors: metric(
        errors.get(device) ?? w.none(),
        "event/s",
        "errors of the device",
        `disk.errors by device ${where}`,
        Number.MIN_VALUE,
        Number.MIN_VALUE,
      ),
      stalled: null,
      carries: ["read", "write"].map((direction) => ({
        name: direction,
        metric: metric(
          w.one(a.diskBytes, device, direction),
          "B/s",
          `bytes ${direction === "read" ? "read" : "written"}`,
          `disk.bytes by direction ${where}`,
        ),
      })),
      odd: odd.get(device) ?? null,
    });
  }
  const io = stalled(w, a, "io");
  const list = busiestFirst(w, out);
  if (list[0] && io)
    list[0] = {
      ...list[0],
      stalled: { ...io, what: "time in which some task waited for I/O on any disk" },
    };
  return list;
}

function netRows(w: Work, a: Asked): Use[] {
  const info = new Map<string, { kind: string; duplex: string }>();
  for (const s of a.netInfo?.series ?? [])
    info.set(idOf(s.key.slice(0, 2)), { kind: s.key[2]!, duplex: s.key[3]! });
  const devices = new Map<string, [string, string]>();
  for (const s of a.net?.series ?? []) devices.set(idOf(s.key.slice(0, 2)), [s.key[0]!, s.key[1]!]);
  const [drops, fifo, qdisc, errors] = [
    w.rows(a.drops),
    w.rows(a.fifo),
    w.rows(a.qdisc),
    w.rows(a.netErrors),
  ];
  const odd = oddOf(
    2,
    [[a.net, "bytes"]],
    [
      [a.capacity, "capacity"],
      [a.drops, "drops"],
      [a.fifo, "overruns"],
      [a.qdisc, "drops of the queue"],
      [a.netErrors, "errors"],
    ],
  );
  const out: Use[] = [];
  for (const [id, [netns, device]] of devices) {
    const { kind = "", duplex = "" } = info.get(id) ?? {};
    if (kind === "loopback") continue;
    const rx = w.one(a.net, netns, device, "rx");
    const tx = w.one(a.net, netns, device, "tx");
    const rxMost = w.one(a.capacity, netns, device, "rx");
    const txMost = w.one(a.capacity, netns, device, "tx");
    const half = duplex === "half";
    // The machine's own namespace, too, is named: other namespaces have interfaces of the same
    // names.
    const where = `where device = ${quoted(device)} and netns = ${quoted(netns)}`;
    const limit = Math.max(last(rxMost) || 0, last(txMost) || 0);
    out.push({
      resource: "Network",
      name: netns === "" ? device : `${netns}/${device}`,
      about: limit > 0 ? humane(limit, "bit/s") : "speed unknown",
      key: `net ${id}`,
      utilization: share(
        w.each((c) => {
          // The fuller direction; where one wire carries both, their sum.
          const r = ((half ? rx[c]! + tx[c]! : rx[c]!) * 8) / rxMost[c]!;
          const t = ((half ? rx[c]! + tx[c]! : tx[c]!) * 8) / txMost[c]!;
          return rxMost[c]! > 0 && !(t > r) ? r : txMost[c]! > 0 ? t : Number.NaN;
        }),
        limit > 0
          ? "the busier direction, as a share of the capacity"
          : "the capacity of this interface is not known",
        `net.device.bytes by direction ${where}`,
      ),
      saturation: metric(
        w.sum([drops, fifo, qdisc].map((m) => m.get(id) ?? w.none())),
        "packet/s",
        "drops, overruns and full queues",
        `net.device.drops by direction ${where}`,
        Number.MIN_VALUE,
        100,
      ),
      errors: metric(
        errors.get(id) ?? w.none(),
        "packet/s",
        "errors of the interface",
        `net.device.errors by direction ${where}`,
        Number.MIN_VALUE,
        Number.MIN_VALUE,
      ),
      stalled: null,
      carries: [
        {
          name: "rx",
          metric: metric(rx, "B/s", "bytes received", `net.device.bytes by direction ${where}`),
        },
        {
          name: "tx",
          metric: metric(tx, "B/s", "bytes sent", `net.device.bytes by direction ${where}`),
        },
      ],
      odd: odd.get(id) ?? null,
    });
  }
  return busiestFirst(w, out);
}

/** The newest known value. */
export function last(values: ArrayLike<number>): number {
  for (let c = values.length - 1; c >= 0; c--) if (!Number.isNaN(values[c]!)) return values[c]!;
  return Number.NaN;
}

/** The greatest value; NaN when none is known. */
export function most(values: ArrayLike<number>): number {
  let m = Number.NaN;
  for (let c = 0; c < values.length; c++)
    if (!(values[c]! <= m) && !Number.isNaN(values[c]!)) m = values[c]!;
  return m;
}

/**
 * Devices by the most that they had in the time that is shown, so that rows stay where they are
 * from second to second: those unlike the others first, by the power of two of their score; then by
 * utilization, then by the bytes they carried. Unknown utilization stands
 * after known, unknown bytes after none; those that are gone come last.
 */
function busiestFirst(w: Work, rows: Use[]): Use[] {
  const order = rows.map((r) => ({
    r,
    there: Number(there(r, w)),
    odd: magnitude(Math.abs(r.odd?.unlike.score ?? 0)),
    utilization: percents(most(r.utilization.values)),
    carried: magnitude(carried(r)),
  }));
  order.sort(
    (x, y) =>
      y.there - x.there ||
      y.odd - x.odd ||
      y.utilization - x.utilization ||
      y.carried - x.carried ||
      x.r.name.localeCompare(y.r.name, "en", { numeric: true }),
  );
  return order.map((x) => x.r);
}

/** The most that a device carried in one direction; NaN where nothing of it is known. */
const carried = (r: Use): number => most(r.carries.map((x) => most(x.metric.values)));

/** Whether a device was still there in the last ten seconds. */
export function there(u: Use, table: Pick<UseTable, "cells" | "step">): boolean {
  const from = Math.max(0, table.cells - Math.max(1, Math.round(lasting / table.step)));
  return [u.utilization, ...u.carries.map((c) => c.metric)].some((m) =>
    m.values.subarray(from).some((v) => !Number.isNaN(v)),
  );
}

/** Whole percents, unknown as less than none: small differences are no reason to change places. */
function percents(v: number): number {
  return Number.isNaN(v) ? -1 : Math.round(v * 100);
}

/** The power of two of an amount, unknown as less than none. */
function magnitude(v: number): number {
  return Number.isNaN(v) ? -1 : Math.round(Math.log2(1 + v));
}

/**
 * The devices of one resource that are worth a row, in their order: the first `few` of those
 * unlike the others, the busiest `few` of known utilization, and as many of those whose utilization
 * is unknown, as any of them may be the fullest. Idle ones are left out, except the first.
 */
export function worthShowing(
  rows: readonly Use[],
  table: Pick<UseTable, "cells" | "step">,
  few: number,
): Use[] {
  const present = rows.filter((r) => there(r, table));
  const odd = present.filter((r) => r.odd !== null); // also one that is idle while others are not
  const active = present.filter((r) => r.odd === null && used(r));
  const unknown = (r: Use): boolean => Number.isNaN(most(r.utilization.values));
  const busiest = new Set([
    ...odd.slice(0, few),
    ...active.filter((r) => !unknown(r)).slice(0, few),
    ...active.filter(unknown).slice(0, few),
  ]);
  const shown = rows.filter((r) => busiest.has(r));
  return shown.length > 0 ? shown : rows.slice(0, 1);
}

/** Whether a device did anything in the time that is shown. */
export function used(u: Use): boolean {
  return [u.utilization, u.saturation, u.errors, ...u.carries.map((c) => c.metric)].some(
    (m) => m !== null && most(m.values) > 0,
  );
}

/** A value of a sentence: bare where the grammar lets it stand, else in quotes. */
export function quoted(value: string): string {
  return /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/.test(value) &&
    !["by", "where", "and", "in"].includes(value)
    ? value
    : `"${value.replace(/[\\"]/g, "\\$&")}"`;
}
