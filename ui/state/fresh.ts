// Which findings are new: those of a diagnosis that were in none shortly before. Pure.

/** What is known of a finding. */
export interface Found {
  id: string;
  claim: string;
}

/** How long a finding is known after it was last seen: one that comes and goes is no news. */
export const remembered = 10 * 60_000;

export class Fresh {
  #seen = new Map<string, number>();
  #begun = false;

  /** The findings of a diagnosis that are new; none of the first one, which somebody looks at. */
  take(findings: readonly Found[], now: number): Found[] {
    const fresh = findings.filter(
      (f) => this.#begun && !(now - (this.#seen.get(f.id) ?? -Infinity) < remembered),
    );
    this.#begun = true;
    for (const [id, at] of this.#seen) if (now - at >= remembered) this.#seen.delete(id);
    for (const f of findings) this.#seen.set(f.id, now);
    return fresh;
  }
}
