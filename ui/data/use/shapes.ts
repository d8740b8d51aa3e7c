// The queries of a USE table, and what is worked out of their answers.

import type { When } from "../ask";
import type { Answer, Loss, Unlike } from "../columns";

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

/** More rows are not shown. */
export const mostRows = 500;

/**
 * When and how fine the queries are asked: ten minutes in seconds. A part of a second at each end
 * would be a column more than 600, and all would be twice as long.
 */
export function whenAsked(from: number, to: number): When {
  const whole = to - from >= 2000;
  return {
    from: whole ? Math.ceil(from / 1000) * 1000 : from,
    to: whole ? Math.floor(to / 1000) * 1000 : to,
    columns: 600,
    top: mostRows,
  };
}

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
  /** What the level is of, where it is not the values themselves. */
  marked?: Float64Array;
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
  /**
   * The cell that is shown as now: the newest that all answers have; -1 when there is none. All
   * numbers and all levels of a table are of this cell.
   */
  newest: number;
  /** Milliseconds measured in that cell: the newest of a live table is not over yet. */
  took: number;
  rows: Use[];
  /**
   * What the answers are known to lack, by its reason, with the most events that one of them says.
   */
  losses: Loss[];
}

/** A moment is no state: what is coloured was so in the mean of this time, in milliseconds. */
export const lasting = 10_000;
