// A real Prometheus with the samples of ten hosts, for the view of hosts.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freeAddress, until } from "./stage";

/** Why there can be no engine here; "" when there can. */
export const lacksEngine = ["prometheus", "promtool"]
  .filter((tool) => spawnSync(tool, ["--version"]).error)
  .map((tool) => `needs: tool ${tool}`)
  .join(", ");

/** Seconds between two samples. */
const step = 15;

/** The samples of one metric of a host. */
interface Line {
  name: string;
  labels: string;
  at: (seconds: number) => number;
}

/** What host i of ten sends: host 4 sends a tenth of the others, and segments again. */
function lines(i: number): Line[] {
  const wave = (t: number) => 1 + Math.sin(t / 90 + i) / 20;
  const slow = i === 4;
  const counter = (name: string, labels: string, perSecond: number): Line => ({
    name,
    labels,
    // The integral of perSecond times a wave.
    at: (t) => perSecond * (t - 4.5 * (Math.cos(t / 90 + i) - Math.cos(i))),
  });
  const network = (direction: string, perSecond: number) =>
    counter("culprit_net_device_bytes_total", `device="eth0",direction="${direction}"`, perSecond);
  const memory = (kind: string, bytes: number): Line => ({
    name: "culprit_memory_size_bytes",
    labels: `kind="${kind}"`,
    at: (t) => bytes * (kind === "total" ? 1 : wave(t)),
  });
  return [
    { name: "culprit_sched_load", labels: 'window="1m"', at: wave },
    counter("culprit_cpu_time_seconds_total", 'cpu="0",mode="idle"', 0.7),
    counter("culprit_cpu_time_seconds_total", 'cpu="0",mode="user"', 0.3),
    memory("total", 16e9),
    memory("available", 9e9),
    counter("culprit_disk_busy_seconds_total", 'device="vda"', 0.12),
    network("rx", 3e6),
    network("tx", slow ? 1.1e6 : 11e6),
    counter(
      "culprit_net_protocol_events_total",
      'protocol="Tcp",counter="RetransSegs"',
      slow ? 66 : 0.2,
    ),
  ];
}

/** Text in the format OpenMetrics: five minutes up to now and five after it. */
function openMetrics(now: number): string {
  const all = new Map<string, string[]>();
  for (let i = 0; i < 10; i++) {
    const name = `client${i}`;
    // Host 9 is silent for four minutes.
    const end = i === 9 ? now - 240 : now + 300;
    const own = lines(i);
    if (i === 2) {
      const culprit = 'rule="peer-slow",kind="client",culprit="192.0.2.4",severity="high"';
      own.push({ name: "culprit_finding", labels: culprit, at: () => 0.8 });
    }
    for (const l of own) {
      const out = all.get(l.name) ?? [`# TYPE ${l.name} unknown`];
      all.set(l.name, out);
      for (let t = 0; now - 600 + t <= end; t += step)
        out.push(
          `${l.name}{${l.labels},instance="${name}",rack="r${i % 2}"} ${l.at(t)} ${now - 600 + t}`,
        );
    }
  }
  return `${[...all.values()].flat().join("\n")}\n# EOF\n`;
}

/** A running Prometheus. */
export class Engine {
  private constructor(
    readonly url: string,
    private readonly dir: string,
    private readonly child: ChildProcess,
  ) {}

  static async start(): Promise<Engine> {
    const dir = mkdtempSync(join(tmpdir(), "culprit-engine-"));
    const text = join(dir, "samples");
    const data = join(dir, "data");
    writeFileSync(text, openMetrics(Math.floor(Date.now() / 1000)));
    execFileSync("promtool", ["tsdb", "create-blocks-from", "openmetrics", text, data]);
    writeFileSync(join(dir, "prometheus.yml"), "global: {}\n");
    const address = await freeAddress();
    const child = spawn(
      "prometheus",
      [
        `--config.file=${join(dir, "prometheus.yml")}`,
        `--storage.tsdb.path=${data}`,
        `--web.listen-address=${address}`,
      ],
      { stdio: "ignore" },
    );
    const engine = new Engine(`http://${address}`, dir, child);
    await until("Prometheus is ready", async () => {
      try {
        return (await fetch(`${engine.url}/-/ready`)).ok;
      } catch {
        return false;
      }
    });
    return engine;
  }

  /** Ends the program and deletes its data. */
  async end(): Promise<void> {
    const gone = new Promise((r) => this.child.once("exit", r));
    if (this.child.exitCode === null && this.child.kill("SIGKILL")) await gone;
    rmSync(this.dir, { recursive: true, force: true });
  }
}
