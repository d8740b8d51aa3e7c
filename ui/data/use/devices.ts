// The rows of disks and network interfaces.

import { type Answer, idOf } from "../columns";
import { humane } from "../units";
import { metric, oddOf, share, stalled, type Work } from "./metric";
import { busiestFirst, last } from "./order";
import type { Asked, Use } from "./shapes";

export function diskRows(w: Work, a: Asked): Use[] {
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

export function netRows(w: Work, a: Asked): Use[] {
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

/** A value of a sentence: bare where the grammar lets it stand, else in quotes. */
export function quoted(value: string): string {
  return /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/.test(value) &&
    !["by", "where", "and", "in"].includes(value)
    ? value
    : `"${value.replace(/[\\"]/g, "\\$&")}"`;
}
