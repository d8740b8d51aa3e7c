// Clients of one server: each in its own network namespace, on a switch. One has a slow link.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";

/**
 * A switch: it makes taps, and passes each frame to the port of its receiver, to all where that is
 * not known. Frames of the slow port wait for their turn, as many as half a second has space for.
 * Veths would do, but report no speed of their own. Arguments: port=bytes per second, 0: no limit.
 */
const switching = `
use strict; $0 = "eyes-switch";
my (@ports, %port, @rate, @ready);
for my $arg (@ARGV) {
  my ($name, $rate) = split /=/, $arg;
  open(my $f, "+<", "/dev/net/tun") or die "/dev/net/tun: $!";
  ioctl($f, 0x400454ca, pack("a16 S x22", $name, 0x1002)) or die "$name: $!";
  push @ports, $f; push @rate, $rate; push @ready, 0;
}
use Time::HiRes qw(time sleep);
$| = 1; print "ready\\n";
my @queues = map { [] } @ports;
while (1) {
  my $in = ""; vec($in, fileno($_), 1) = 1 for @ports;
  my $wait = (grep { @$_ } @queues) ? 0.002 : 1;
  select($in, undef, undef, $wait);
  for my $i (0 .. $#ports) {
    next unless vec($in, fileno($ports[$i]), 1);
    sysread($ports[$i], my $frame, 2000) or next;
    my ($to, $from) = unpack("a6 a6", $frame);
    $port{$from} = $i;
    my @out = exists $port{$to} ? ($port{$to}) : grep { $_ != $i } 0 .. $#ports;
    for my $o (@out) {
      if ($rate[$o] == 0) { syswrite($ports[$o], $frame); next }
      push @{$queues[$o]}, $frame if @{$queues[$o]} < $rate[$o] / 3000;
    }
  }
  my $now = time;
  for my $o (0 .. $#ports) {
    $ready[$o] = $now - 0.01 if $ready[$o] < $now - 0.01;
    while (@{$queues[$o]} && $ready[$o] <= $now) {
      my $frame = shift @{$queues[$o]};
      syswrite($ports[$o], $frame);
      $ready[$o] += length($frame) / $rate[$o];
    }
  }
}`;

const prefix = `e${process.pid}`;
const ip = (...args: string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

export interface Clients {
  /** The namespace and interface of the server. */
  server: { netns: string; device: string };
  /** The address of the slow client, and its namespace. */
  slow: { address: string; netns: string };
  end: () => void;
}

/**
 * A server that sends to six clients at 1 MB/s each. The link of the third reports 100 Mbit/s,
 * those of the others 1000, and it passes a fifth of the rate.
 */
export async function clients(): Promise<Clients> {
  const count = 6;
  const slow = 3;
  const names = Array.from({ length: count }, (_, i) => `${prefix}cl${i + 1}`);
  const spaces = [`${prefix}srv`, ...names];
  const devices = ["nic0", ...names.map((_, i) => `e${i + 1}`)];
  const children: ChildProcess[] = [];
  const end = (): void => {
    for (const c of children) c.kill("SIGKILL");
    for (const s of spaces) {
      try {
        ip("netns", "del", s);
      } catch {
        // It was not made.
      }
    }
  };
  try {
    for (const s of spaces) ip("netns", "add", s);
    const ports = devices.map((d, i) => `${prefix}${d}=${i === slow ? 200_000 : 0}`);
    const relay = spawn("perl", ["-e", switching, ...ports], { stdio: ["ignore", "pipe", "pipe"] });
    children.push(relay);
    await new Promise<void>((done, fail) => {
      let said = "";
      relay.stderr.on("data", (d) => (said += d));
      relay.stdout.once("data", () => done());
      relay.once("exit", () => fail(new Error(`the switch ended: ${said}`)));
    });
    devices.forEach((d, i) => {
      const ns = spaces[i]!;
      ip("link", "set", `${prefix}${d}`, "netns", ns, "name", d);
      ip("-n", ns, "addr", "add", `10.252.9.${i === 0 ? 1 : 10 + i}/24`, "dev", d);
      ip("-n", ns, "link", "set", "lo", "up");
      ip("-n", ns, "link", "set", d, "up");
      const speed = i === slow ? "100" : "1000";
      const args = [
        "netns",
        "exec",
        ns,
        "ethtool",
        "-s",
        d,
        "speed",
        speed,
        "duplex",
        "full",
        "autoneg",
        "off",
      ];
      execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
    });
    const inside = (ns: string, ...args: string[]): ChildProcess => {
      const c = spawn("ip", ["netns", "exec", ns, "iperf3", ...args], { stdio: "ignore" });
      children.push(c);
      return c;
    };
    names.forEach((ns, i) => {
      inside(ns, "-s", "-p", "5300");
      let ended = false;
      const send = (): void => {
        const c = inside(
          spaces[0]!,
          "-c",
          `10.252.9.${11 + i}`,
          "-p",
          "5300",
          "-b",
          "8M",
          "-t",
          "600",
        );
        c.on("exit", (code) => {
          // Exit status 1: the receiver was not listening yet.
          if (code === 1 && !ended) setTimeout(send, 300);
        });
        c.on("spawn", () => setTimeout(() => (ended = true), 20_000).unref());
      };
      send();
    });
  } catch (e) {
    end();
    throw e;
  }
  return {
    server: { netns: spaces[0]!, device: "nic0" },
    slow: { address: `10.252.9.${10 + slow}`, netns: spaces[slow]! },
    end,
  };
}
