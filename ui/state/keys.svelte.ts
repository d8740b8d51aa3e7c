// The keyboard. Each part of the page adds its keys while it is shown; the help lists what is
// there.

export interface Key {
  /**
   * As KeyboardEvent.key has it: "n", "?", " ", "ArrowLeft"; "Ctrl+k" with Ctrl or the command key.
   */
  keys: string[];
  /** What it does, in a few words. */
  what: string;
  run: (e: KeyboardEvent) => void;
}

export interface Group {
  title: string;
  keys: Key[];
}

class Keys {
  #groups = $state.raw<Group[]>([]);

  /** The newest first: what is shown on top has the say. */
  get groups(): readonly Group[] {
    return this.#groups;
  }

  /** The groups for the help: keys of parts with the same title are together. */
  get titled(): readonly Group[] {
    const out = new Map<string, Key[]>();
    for (const g of this.#groups) out.set(g.title, [...(out.get(g.title) ?? []), ...g.keys]);
    return [...out].map(([title, keys]) => ({ title, keys }));
  }

  /** Adds keys, until the returned function is called. */
  add(title: string, keys: Key[]): () => void {
    const group = { title, keys };
    this.#groups = [group, ...this.#groups];
    return () => {
      this.#groups = this.#groups.filter((g) => g !== group);
    };
  }

  /** Runs the action of a key. Keys that a field or a button needs for itself are left to it. */
  handle(e: KeyboardEvent): void {
    if (e.defaultPrevented || e.altKey) return;
    const control = e.ctrlKey || e.metaKey;
    const name = control ? `Ctrl+${e.key.toLowerCase()}` : e.key;
    if (!control && takes(e.target, e.key)) return;
    for (const g of this.#groups) {
      const key = g.keys.find((k) => k.keys.includes(name));
      if (key) {
        e.preventDefault();
        key.run(e);
        return;
      }
    }
  }
}

/** Whether an element wants a key itself. */
function takes(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (
    target.isContentEditable ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement
  )
    return true;
  if (target instanceof HTMLInputElement)
    return !["checkbox", "radio", "button"].includes(target.type) || key === " ";
  if (key === " ") return target instanceof HTMLButtonElement || target.tagName === "SUMMARY";
  return false;
}

export const keys = new Keys();

/** A key as the help shows it. */
export function keyName(k: string): string {
  const names: Record<string, string> = {
    " ": "space",
    ArrowLeft: "←",
    ArrowRight: "→",
    ArrowUp: "↑",
    ArrowDown: "↓",
    "Ctrl+k": "Ctrl-K",
  };
  return names[k] ?? k;
}
