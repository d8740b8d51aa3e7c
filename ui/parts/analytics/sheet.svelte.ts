// The data behind the graphs: asks for the past, follows the present on one stream for all graphs,
// and mends what the stream missed.

import { untrack } from "svelte";
import { bytes, follow, Trouble } from "../../data/client";
import {
  type Answer,
  binaryType,
  type Deviants,
  deviantsOf,
  fromBinary,
  fromJSON,
  type Loss,
} from "../../data/columns";
import type { Event } from "../../data/events";
import { Live } from "../../data/live";
import { persist } from "../../data/persist";
import { server } from "../../state/server.svelte";
import type { Range } from "../../state/time";
import { ranking } from "./scene";

/** Rows that are asked for; what is beyond comes as one. */
export const most = 200;

/** Ticks between two rankings of live rows: an order that changed each second could not be read. */
const calm = 10;

/** How often a host of the engine is asked, in milliseconds: servers send a sample each 15 s. */
const often = 15_000;

/** How often, a tenth of a second apart, the stream waits for answers that are on their way. */
const retries = 10;

/** What is known of one sentence in the stretch that is shown. */
export class Data {
  answer = $state.raw<Answer | null>(null);
  /** Ids of the rows, the largest first; changes seldom. */
  ranked = $state.raw<string[]>([]);
  /** The rows that differ from the others; changes seldom. */
  deviants = $state.raw<Deviants>(new Map());
  trouble = $state.raw<Trouble | null>(null);
  loading = $state(false);
  /** It is recorded since a moment ago: the first values are on their way. */
  awaited = $state(false);
  /** Losses of live ticks, with their moments. */
  losses = $state.raw<{ at: number; loss: Loss[] }[]>([]);
  /** Milliseconds from the question to the answer, and the bytes of it. */
  took = 0;
  size = 0;
  live: Live | null = null;
  want = "";
  stop: AbortController | null = null;
  pending: { at: number; tick: Answer }[] = [];
  ticks = 0;
  /** Rows beyond those of the answer that began to differ: what they did before was asked for. */
  sought = new Set<string>();
  /** The newest tick there was when what had passed since was last asked for. */
  tried = Number.NaN;

  constructor(readonly sentence: string) {}
}

interface Tick {
  at_ms: number;
  answers: unknown[];
}

/** The rows that began to differ and that neither the answer has nor were sought before. */
function unseen(d: Data, tick: Answer): string[] {
  if (!tick.unlike) return [];
  const known = new Set(d.answer?.series.map((r) => r.id));
  return [...tick.unlike.keys()].filter((id) => !known.has(id) && !d.sought.has(id));
}

/** The data of a worksheet. */
export class Sheet {
  /** The planned end of the newest tick, in milliseconds; 0 before the first. */
  tick = $state(0);
  /** Milliseconds that the newest tick took in the page, without drawing. */
  cost = $state(0);
  /** Changes when sentences come or go: the data must then be looked up again. */
  version = $state(0);
  /** Whether the present is followed. */
  live = $state(false);
  private all = new Map<string, Data>();
  private range: Range | null = null;
  /** The sentences that are asked for after another one, and that one. */
  private after: ReadonlyMap<string, string> = new Map();
  /** A host of the engine; "": the machine of the server. */
  private host = "";
  private columns = 0;
  private stream: AbortController | null = null;
  private streamed: string[] = [];
  private window = 0; // over which the server compares the rows of the stream
  private retries = retries;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** What is known of a sentence; undefined of one that is not wanted. */
  data(sentence: string): Data | undefined {
    void this.version;
    return this.all.get(sentence);
  }

  /**
   * Makes the data those of the sentences, the stretch and at most so many cells. A sentence of
   * after is asked for when the answer to its other sentence is there: rows after their heat map.
   * host is a host of the engine, which is asked again and again: it has no stream.
   */
  want(
    sentences: readonly string[],
    range: Range,
    columns: number,
    after: ReadonlyMap<string, string> = new Map(),
    host = "",
  ): void {
    this.range = range;
    this.after = after;
    this.host = host;
    this.live = range.kind === "live";
    this.columns = columns;
    const set = new Set(sentences);
    let changed = false;
    for (const [s, d] of this.all) {
      if (set.has(s)) continue;
      d.stop?.abort();
      this.all.delete(s);
      changed = true;
    }
    const key =
      range.kind === "live"
        ? `live ${range.span} ${columns} ${host}`
        : `${range.from} ${range.to} ${columns} ${host}`;
    const begun = new Map<string, Promise<void>>();
    for (const s of [...set].sort((x, y) => Number(after.has(x)) - Number(after.has(y)))) {
      let d = this.all.get(s);
      if (!d) {
        d = new Data(s);
        this.all.set(s, d);
        changed = true;
      }
      if (d.want !== key) {
        d.want = key;
        d.sought.clear();
        const before = begun.get(after.get(s) ?? "");
        if (before) void this.loadAfter(d, before, key);
        else begun.set(s, this.load(d));
      }
    }
    if (changed) untrack(() => this.version++);
    this.restream();
  }

  /** What is known of a sentence and of its heat map. */
  private both(sentence: string): Data[] {
    return [sentence, this.after.get(sentence) ?? ""].flatMap((s) => this.all.get(s) ?? []);
  }

  /** Asks again until what is recorded since a moment ago has values, for half a minute. */
  async awaitRecorded(sentence: string): Promise<void> {
    for (let n = 0; n < 20; n++) {
      const both = this.both(sentence);
      if (n > 0 && both.length === 0) return;
      const empty = both.filter((d) => !d.answer || d.trouble || d.answer.series.length === 0);
      if (both.length > 0 && empty.length === 0) break;
      for (const d of both) d.awaited = true;
      await new Promise((done) => setTimeout(done, 1500));
      for (const d of empty) if (this.all.get(d.sentence) === d) void this.load(d);
    }
    for (const d of this.both(sentence)) d.awaited = false;
  }

  end(): void {
    clearTimeout(this.timer);
    this.stream?.abort();
    this.stream = null;
    this.streamed = [];
    for (const d of this.all.values()) d.stop?.abort();
    this.all.clear();
  }

  /** Loads when something else is loaded, unless something else is wanted by then. */
  private async loadAfter(d: Data, before: Promise<void>, key: string): Promise<void> {
    d.stop?.abort();
    d.stop = null;
    d.loading = true;
    await before;
    if (d.want === key && this.all.get(d.sentence) === d && !d.stop) await this.load(d);
  }

  private async load(d: Data, pending: Data["pending"] = []): Promise<void> {
    const range = this.range;
    if (!range) return;
    d.stop?.abort();
    const stop = new AbortController();
    d.stop = stop;
    d.loading = true;
    d.pending = pending;
    const live = range.kind === "live";
    const from = live ? `-${Math.ceil(range.span / 1000)}s` : String(Math.round(range.from));
    const to = live ? "now" : String(Math.round(range.to));
    const begun = performance.now();
    try {
      const host = this.host === "" ? undefined : this.host;
      const params = { q: d.sentence, from, to, columns: this.columns, top: most, host };
      const asked = async (): Promise<ArrayBuffer> =>
        (await bytes("ask", params, binaryType, stop.signal)).arrayBuffer();
      const buffer = await persist(asked, stop.signal, (t) => {
        d.trouble = t;
        d.pending = []; // the answer has what the stream sent before it
      });
      const a = fromBinary(buffer);
      if (stop.signal.aborted) return;
      d.took = performance.now() - begun;
      d.size = buffer.byteLength;
      d.losses = [];
      if (live) {
        d.live = new Live(a, Math.ceil(range.span / a.step) + 1);
        for (const p of d.pending) d.live.append(p.at, p.tick);
        d.answer = d.live.answer();
        this.tick = Math.max(this.tick, d.live.newestTick);
      } else {
        d.live = null;
        d.answer = a;
      }
      d.pending = [];
      d.deviants = deviantsOf(a);
      d.ranked = ranking(d.answer, d.deviants);
      d.trouble = null;
    } catch (e) {
      if (stop.signal.aborted) return;
      d.trouble =
        e instanceof Trouble ? e : new Trouble(e instanceof Error ? e.message : String(e), 0);
      if (d.trouble.status >= 400 && d.trouble.status < 500) {
        d.answer = null;
        d.live = null;
      }
    }
    if (d.stop === stop) {
      d.loading = false;
      d.stop = null;
    }
    this.restream();
  }

  /**
   * Follows what is live; a change of the sentences begins anew, a little later, so that several
   * changes make one.
   */
  private restream(wait = 30): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(), wait);
  }

  private begin(): void {
    const live = this.range?.kind === "live";
    if (this.host !== "") {
      this.stream?.abort();
      this.stream = null;
      this.streamed = [];
      if (live) this.timer = setTimeout(() => this.reload(), often);
      return;
    }
    // Answers that are on their way are waited for, a while: each change of the sentences is a new
    // stream.
    if (live && this.retries > 0 && [...this.all.values()].some((d) => d.stop)) {
      this.retries--;
      this.restream(100);
      return;
    }
    this.retries = retries;
    // One wrong sentence would be no stream for all: only those that had an answer.
    const list = live
      ? [...this.all.values()].filter((d) => d.live && !d.trouble).map((d) => d.sentence)
      : [];
    const window = this.range?.kind === "live" ? this.range.span : 0;
    if (
      window === this.window &&
      list.length === this.streamed.length &&
      list.every((s, i) => s === this.streamed[i])
    )
      return;
    this.stream?.abort();
    this.stream = null;
    this.streamed = list;
    this.window = window;
    if (list.length === 0) return;
    const stop = new AbortController();
    this.stream = stop;
    follow(
      "live",
      { q: list, top: String(most), window: String(Math.round(window)) },
      stop.signal,
      {
        event: (e) => this.take(e, list),
        link: (l) => {
          if (stop.signal.aborted) return;
          server.heard(l);
          if (l.up || l.trying) return;
          // Refused, as when a dataset has just gone: what is still there is followed.
          this.streamed = [];
          this.restream(5000);
        },
      },
    );
  }

  /** Asks again for all that is live, unless nobody sees it. */
  private reload(): void {
    if (document.hidden) this.restream(often);
    else for (const d of this.all.values()) if (!d.stop) void this.load(d);
  }

  private take(e: Event, list: readonly string[]): void {
    const begun = performance.now();
    if (e.name === "gap") {
      const g = JSON.parse(e.data) as { from_ms: number; to_ms: number; reason: string };
      for (const s of list) {
        const d = this.all.get(s);
        if (!d?.live) continue;
        d.live.gap(g.from_ms, g.to_ms, g.reason);
        d.answer = d.live.answer();
      }
      return;
    }
    if (e.name !== "tick") return;
    const t = JSON.parse(e.data) as Tick;
    list.forEach((s, i) => {
      const d = this.all.get(s);
      const json = t.answers[i];
      if (!d || json === undefined || json === null) return;
      const tick = fromJSON(json);
      if (d.stop) {
        d.pending.push({ at: t.at_ms, tick });
        return;
      }
      if (!d.live) return;
      // What passed between the answer and the stream, or while the stream was down, is in the
      // archive; but what is not recorded now has nothing there either.
      const took = tick.elapsed[0] ?? 0;
      const { newestTick } = d.live;
      if (
        t.at_ms - (took || tick.step) > newestTick + 500 &&
        !(took === 0 && d.tried === newestTick)
      ) {
        d.tried = newestTick;
        void this.load(d, [{ at: t.at_ms, tick }]);
        return;
      }
      // A small row that begins to differ: its past was not among the largest rows.
      const late = unseen(d, tick);
      if (late.length > 0) {
        for (const id of late) d.sought.add(id);
        void this.load(d, [{ at: t.at_ms, tick }]);
        return;
      }
      if (!d.live.append(t.at_ms, tick)) return;
      const answer = d.live.answer();
      if (tick.loss.length > 0)
        d.losses = [
          ...d.losses.filter((l) => l.at > answer.start),
          { at: t.at_ms, loss: tick.loss },
        ];
      if (tick.unlike) d.deviants = tick.unlike;
      if (++d.ticks % calm === 0 || tick.unlike || answer.series.length > d.ranked.length)
        d.ranked = ranking(answer, d.deviants);
      d.answer = answer;
    });
    this.tick = Math.max(this.tick, t.at_ms);
    this.cost = performance.now() - begun;
  }
}
