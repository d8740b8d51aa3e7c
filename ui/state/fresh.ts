// Which findings are new. Pure. The server decides when one is confirmed and when it is withdrawn;
// of a server that does not, a finding is new if it was in no diagnosis shortly before.

import type { Past } from "../data/api";

/** What is known of a finding. */
export interface Found {
  id: string;
  claim: string;
  past?: Past | null;
}

/** How long a finding is known after it was last seen: one that comes and goes is no news. */
export const remembered = 10 * 60_000;

export class Fresh {
  #seen = new Map<string, number>();
  #begun = false;

  /**
   * The findings of a diagnosis that are new; none of the first one, which somebody looks at. held
   * are those that the server has not withdrawn, if it decides.
   */
  take(findings: readonly Found[], now: number, held?: readonly Found[] | null): Found[] {
    if (held) return this.#confirmed(findings, now, held);
    const fresh = findings.filter(
      (f) => this.#begun && !(now - (this.#seen.get(f.id) ?? -Infinity) < remembered),
    );
    this.#begun = true;
    for (const [id, at] of this.#seen) if (now - at >= remembered) this.#seen.delete(id);
    for (const f of findings) this.#seen.set(f.id, now);
    return fresh;
  }

  #confirmed(findings: readonly Found[], now: number, held: readonly Found[]): Found[] {
    const confirmed = findings.filter((f) => f.past?.confirmed !== false);
    const fresh = confirmed.filter((f) => this.#begun && !this.#seen.has(f.id));
    this.#begun = true;
    this.#seen = new Map([...confirmed, ...held].map((f) => [f.id, now]));
    return fresh;
  }
}
