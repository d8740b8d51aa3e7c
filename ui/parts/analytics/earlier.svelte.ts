// Asks for the rows of a graph at an earlier time.

import type { Note } from "../../data/api";
import { bytes, get, Trouble } from "../../data/client";
import { type Answer, binaryType, endOf, fromBinary } from "../../data/columns";
import { persist } from "../../data/persist";
import { moment } from "../../draw/axis";
import { most } from "./sheet.svelte";

/** The earlier rows of one graph. */
export class EarlierFeed {
  answer = $state.raw<Answer | null>(null);
  trouble = $state.raw<Trouble | null>(null);
  loading = $state(false);
  /** How the clock was set since, in words. */
  clocks = $state.raw<string[]>([]);
  private key = "";
  private from = 0;
  private to = 0;
  private stop: AbortController | null = null;

  /**
   * Makes the answer that of the sentence `by` milliseconds before a, in cells as long. Where a
   * follows the time, more is asked for than is in sight: it has been recorded already. host is a
   * host of the engine.
   */
  want(sentence: string, by: number, a: Answer, live: boolean, host: string): void {
    const key = JSON.stringify([sentence, by, a.step, host]);
    const from = a.start - by;
    const to = endOf(a) - by;
    if (key === this.key && from >= this.from && to <= this.to) return;
    const ahead = live ? Math.floor(Math.min((to - from) / 4, by / 2) / a.step) * a.step : 0;
    if (key !== this.key) this.forget();
    this.key = key;
    this.from = from;
    this.to = to + ahead;
    void this.load(sentence, a.step, this.to + by, host);
  }

  /** Forgets what is known, and asks for nothing more. */
  clear(): void {
    if (this.key === "") return;
    this.forget();
    this.key = "";
  }

  private forget(): void {
    this.stop?.abort();
    this.stop = null;
    this.answer = null;
    this.trouble = null;
    this.loading = false;
    this.clocks = [];
  }

  private async load(q: string, step: number, until: number, host: string): Promise<void> {
    this.stop?.abort();
    const stop = new AbortController();
    this.stop = stop;
    this.loading = true;
    const { from, to } = this;
    try {
      const params = { q, from, to, step, top: most, host: host === "" ? undefined : host };
      const asked = async (): Promise<ArrayBuffer> =>
        (await bytes("ask", params, binaryType, stop.signal)).arrayBuffer();
      const answer = fromBinary(await persist(asked, stop.signal, (t) => (this.trouble = t)));
      const clocks = host === "" ? await clocksIn(from, until, stop.signal) : [];
      if (stop.signal.aborted) return;
      this.answer = answer;
      this.clocks = clocks;
      this.trouble = null;
    } catch (e) {
      if (stop.signal.aborted) return;
      this.answer = null;
      this.trouble =
        e instanceof Trouble ? e : new Trouble(e instanceof Error ? e.message : String(e), 0);
    }
    if (this.stop === stop) {
      this.loading = false;
      this.stop = null;
    }
  }
}

/** The times at which the clock was set, in words: an hour of it is then no hour. */
async function clocksIn(from: number, to: number, signal: AbortSignal): Promise<string[]> {
  try {
    const end = to > Date.now() - 60_000 ? "now" : String(Math.round(to));
    const { notes } = await get<{ notes: Note[] }>(
      "notes",
      { from: String(from), to: end },
      signal,
    );
    const set = notes.filter((n) => n.kind === "clock");
    return set.slice(-2).map((n) => `${n.text} at ${moment(n.at_ms)}`);
  } catch {
    return []; // the marks of the time axis are asked for apart, and say why they are not there
  }
}
