// UTC or the zone of the browser: how moments are written, and how typed ones are read. The choice
// is kept by this browser, it is nothing of the view: addresses have UTC.

import { localZone, setZone } from "../data/zone";

const key = "culprit.zone";

class Clock {
  #utc = $state(false);

  /** Takes up what was chosen before. */
  begin(): void {
    try {
      this.#utc = localStorage.getItem(key) === "utc";
    } catch {
      // A browser that keeps nothing has its own zone.
    }
    setZone((ms) => (this.#utc ? 0 : localZone(ms)));
  }

  get utc(): boolean {
    return this.#utc;
  }

  /** The short name of the zone: "UTC", "CET". */
  get name(): string {
    if (this.#utc) return "UTC";
    const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts();
    return parts.find((p) => p.type === "timeZoneName")?.value ?? "local";
  }

  turn(): void {
    this.#utc = !this.#utc;
    try {
      if (this.#utc) localStorage.setItem(key, "utc");
      else localStorage.removeItem(key);
    } catch {
      // Then it holds until the page is closed.
    }
  }
}

export const zone = new Clock();
