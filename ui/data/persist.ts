// Asks again until there is an answer.

import { Trouble } from "./client";

/** Waits before each try, in milliseconds; the last one stays. */
const waits = [1000, 2000, 5000];

/** Whether asking the same again may bring an answer: the server was away, or busy. */
export function mayPass(t: Trouble): boolean {
  return t.status === 0
    ? t.code === "unreachable"
    : t.status === 429 || (t.status >= 502 && t.status <= 504);
}

/**
 * Calls one until it succeeds, fails in a way that asking again cannot mend, or the signal ends it;
 * returns its result or throws its error. failed is called with each error that is tried again.
 */
export async function persist<T>(
  one: () => Promise<T>,
  signal: AbortSignal,
  failed: (t: Trouble) => void,
  wait: (ms: number, signal: AbortSignal) => Promise<void> = pause,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await one();
    } catch (e) {
      if (signal.aborted || !(e instanceof Trouble) || !mayPass(e)) throw e;
      failed(e);
      await wait(waits[Math.min(tries, waits.length - 1)]!, signal);
      if (signal.aborted) throw e;
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
