// The time in sight of the view that is shown.

import { here } from "./here.svelte";
import { server } from "./server.svelte";
import { fresh, type Moments, type Range } from "./time";
import { exact, inSight, isYoung, resumed, spanSince, stillInSight, zoomedInSight } from "./young";

class Young {
  // A number and no object: what depends on it is made anew only when it changes.
  #span = $derived(
    here.time.kind === "live" ? spanSince(here.time.span, server.recorded, server.now) : 0,
  );
  #time: Range = $derived(
    here.time.kind === "past" || here.time.span === this.#span
      ? here.time
      : { kind: "live", span: this.#span },
  );
  #is = $derived(isYoung(here.time, server.recorded, server.now));

  /** The range to ask for; changes seldom. */
  get time(): Range {
    return this.#time;
  }

  /** Whether the recording is younger than the range. */
  get is(): boolean {
    return this.#is;
  }

  /** The part of a range that is shown when its newest moment is now. */
  sight(range: Range, now: number): Moments {
    return inSight(range, server.recorded, now);
  }

  still(): Range {
    return stillInSight(here.time, server.recorded, server.now);
  }

  exact(): Range {
    return exact(here.time, server.recorded, server.now);
  }

  zoomed(factor: number): Range {
    return zoomedInSight(here.time, factor, server.recorded, server.now);
  }

  resumed(): Range {
    return resumed(here.time, server.recorded, fresh);
  }
}

export const young = new Young();
