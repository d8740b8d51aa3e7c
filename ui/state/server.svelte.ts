// What the page knows of the server as a whole: how it does, what time it is there, what can be
// measured, whether it is reachable.

import { type Health, includes, type Role, type Stat } from "../data/api";
import { get, type Link, say, Trouble } from "../data/client";

/** How often the server is asked how it does, in milliseconds. */
const often = 5000;

class Server {
  #health = $state.raw<Health | null>(null);
  #link = $state.raw<Link>({ up: true });
  #stats = $state.raw<Stat[] | null>(null);
  #now = $state(Date.now());
  #ahead = 0; // the server's clock less ours
  #aheads: number[] = [];
  #refused = $state("");

  get health(): Health | null {
    return this.#health;
  }

  /**
   * Why this browser may not do what takes a role; "" when it may, and as long as nothing is known.
   */
  lacks(role: Role): string {
    const may = this.#health?.may;
    return may === undefined || includes[may].includes(role)
      ? ""
      : `the token of this page has the role ${may}; this needs the role ${role}`;
  }

  /** Whether the server is there. */
  get link(): Link {
    return this.#link;
  }

  /** Why this browser is not let in; "" when it is. */
  get refused(): string {
    return this.#refused;
  }

  /** The server's clock, in milliseconds since the epoch; moves each second. */
  get now(): number {
    return this.#now;
  }

  /** The oldest moment that is recorded; 0 as long as it is not known. */
  get recorded(): number {
    return this.#health?.recorded_ms ?? 0;
  }

  /** The server's clock for a moment of this machine's. */
  at(ours: number): number {
    return ours + this.#ahead;
  }

  /** What can be measured; null until it is known. */
  get stats(): Stat[] | null {
    return this.#stats;
  }

  stat(id: string): Stat | undefined {
    return this.#stats?.find((s) => s.id === id);
  }

  #ask: () => void = () => {};

  /** Asks now, and not at the next time: somebody has logged in. */
  ask(): void {
    this.#ask();
  }

  /** Begins to poll. Returns a function that ends it. */
  begin(): () => void {
    const stop = new AbortController();
    const ask = async () => {
      if (document.hidden) return;
      try {
        const before = Date.now();
        const h = await get<Health>("health", {}, stop.signal);
        const after = Date.now();
        // The server reports the newest tick, up to some seconds after it: of the last minute's
        // answers the freshest has the clock.
        this.#aheads = [...this.#aheads.slice(-11), h.now_ms - (before + after) / 2];
        this.#ahead = Math.max(...this.#aheads);
        this.#health = h;
        this.#refused = "";
        this.heard({ up: true });
        if (this.#stats === null)
          this.#stats = (await get<{ stats: Stat[] }>("catalogue", {}, stop.signal)).stats;
      } catch (e) {
        if (stop.signal.aborted) return;
        if (e instanceof Trouble && e.status === 401) this.#refused = say(e);
        else this.heard({ up: false, since: Date.now(), why: say(e), trying: true });
      }
    };
    const again = () => void ask();
    this.#ask = again;
    void ask();
    const asking = setInterval(again, often);
    const tick = setInterval(() => {
      this.#now = Math.floor(this.at(Date.now()) / 1000) * 1000;
    }, 250);
    document.addEventListener("visibilitychange", again);
    return () => {
      stop.abort();
      clearInterval(asking);
      clearInterval(tick);
      document.removeEventListener("visibilitychange", again);
    };
  }

  /** Reads anew what can be measured: a script has begun, or ended. */
  async relearn(): Promise<void> {
    this.#stats = (await get<{ stats: Stat[] }>("catalogue")).stats;
  }

  /**
   * Takes what somebody found out about the connection. What is down stays down since it first was.
   */
  heard(l: Link): void {
    if (!l.up && !this.#link.up) this.#link = { ...l, since: this.#link.since };
    else if (l.up !== this.#link.up || !l.up) this.#link = l;
  }
}

export const server = new Server();
