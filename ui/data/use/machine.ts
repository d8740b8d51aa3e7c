// The rows of the CPUs and of the memory.

import { humane } from "../units";
import { metric, oddOf, share, stalled, type Work } from "./metric";
import { last } from "./order";
import { type Asked, asks, type Use } from "./shapes";

/** At least so much of one CPU is busy where tasks wait for it all the time. */
const oneCPU = 0.9;

export function cpuRows(w: Work, a: Asked, cpus: number): Use[] {
  const modes = w.rows(a.cpu);
  const whole = w.sum([...modes.values()]);
  const idle = w.sum([modes.get("idle") ?? w.none(), modes.get("iowait") ?? w.none()]);
  const runnable = w.one(a.runnable);
  // The modes of a CPU sum to the time: what is missing of idle is busy.
  const busy = w.each((c) =>
    whole[c]! > 0 ? 1 - (Number.isNaN(idle[c]!) ? 0 : idle[c]!) / whole[c]! : Number.NaN,
  );
  const waiting = w.each((c) => Math.max(0, runnable[c]! - cpus));
  const rows: Use[] = [
    {
      resource: "CPU",
      name: "",
      about: `${cpus} CPU${cpus === 1 ? "" : "s"}`,
      key: "cpu",
      utilization: share(busy, "all CPUs, not idle", asks.cpu),
      saturation: {
        ...metric(
          waiting,
          "tasks",
          "runnable tasks beyond the number of CPUs",
          asks.runnable,
          1,
          Math.max(2, cpus),
        ),
        // Runnable tasks are counted at one instant: where no CPU was busy for all of the cell,
        // they did not wait for all of it.
        marked: w.each((c) => (busy[c]! * cpus < oneCPU ? 0 : waiting[c]!)),
      },
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
          if (c === w.newest) busiest = cpu;
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

export function memoryRow(w: Work, a: Asked): Use {
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
