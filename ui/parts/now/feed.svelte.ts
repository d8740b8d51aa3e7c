// The numbers of the USE table: asked for the time that is shown, then followed as they come.

import { ask } from "../../data/ask";
import { follow, say, Trouble } from "../../data/client";
import { fromJSON } from "../../data/columns";
import { Live } from "../../data/live";
import { type Asked, asks, mostRows, type UseTable, whenAsked } from "../../data/use/shapes";
import { useTable } from "../../data/use/table";
import { server } from "../../state/server.svelte";
import { type Range, stretch } from "../../state/time";

type Name = keyof typeof asks;
const names = Object.keys(asks) as Name[];

export class Feed {
  #table = $state.raw<UseTable | null>(null);
  #error = $state("");
  /** Sentences without an answer, with the reason. */
  #missing = $state.raw<[string, string][]>([]);

  get table(): UseTable | null {
    return this.#table;
  }

  /** Why there is nothing to show; "" when there is. */
  get error(): string {
    return this.#error;
  }

  get missing(): readonly [string, string][] {
    return this.#missing;
  }

  /** Shows a time. Returns a function that ends it. */
  show(range: Range, cpus: number): () => void {
    const stop = new AbortController();
    const past: Asked = {};
    const live = new Map<Name, Live>();
    let ticks: { at_ms: number; answers: unknown[] }[] = [];
    let loading = false;

    const load = async () => {
      loading = true;
      const { from, to } = stretch(range, server.at(Date.now()));
      const missing: [string, string][] = [];
      await Promise.all(
        names.map(async (name) => {
          try {
            past[name] = await ask(asks[name], whenAsked(from, to), stop.signal);
          } catch (e) {
            if (stop.signal.aborted) return;
            missing.push([asks[name], say(e)]);
            if (e instanceof Trouble && (e.status === 0 || e.status === 401)) this.#error = say(e);
          }
        }),
      );
      loading = false;
      if (stop.signal.aborted) return;
      this.#missing = missing;
      if (Object.keys(past).length === 0) {
        this.#error = missing[0]?.[1] ?? "";
        return;
      }
      this.#error = "";
      live.clear();
      for (const name of names) {
        const a = past[name];
        if (a && range.kind === "live") live.set(name, new Live(a));
      }
      const late = ticks;
      ticks = [];
      if (late.length === 0) this.#table = useTable(past, cpus);
      for (const t of late) take(t, t === late.at(-1));
    };

    const take = (tick: { at_ms: number; answers: unknown[] }, show = true) => {
      if (live.size === 0) {
        if (loading) ticks.push(tick);
        return;
      }
      const now: Asked = {};
      names.forEach((name, i) => {
        const l = live.get(name);
        if (!l) return;
        const answer = tick.answers[i] as { error?: unknown } | undefined;
        if (answer && answer.error === undefined) l.append(tick.at_ms, fromJSON(answer));
        now[name] = l.answer();
      });
      if (show) this.#table = useTable(now, cpus);
    };

    if (range.kind === "past") void load();
    else {
      follow(
        "live",
        {
          q: names.map((n) => asks[n]),
          top: mostRows,
          window: String(Math.round(range.span)),
        },
        stop.signal,
        {
          event: (e) => {
            if (e.name === "tick") take(JSON.parse(e.data));
          },
          link: (l) => {
            server.heard(l);
            // What came to pass without us is asked for again.
            if (l.up) void load();
          },
        },
      );
    }
    return () => stop.abort();
  }
}
