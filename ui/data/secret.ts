// The secret of this browser's session. The cookie admits to viewing; what changes something needs
// the secret, too. It is kept where only pages of this scheme, host and port can read it, since a
// cookie is sent to all ports of a host: docs/decisions/0010-sessions.md.

/** Where a tab keeps the secret: sessionStorage. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** How tabs of one origin talk to each other: a BroadcastChannel. */
export interface Tabs {
  postMessage(message: unknown): void;
  onmessage: ((e: MessageEvent) => void) | null;
}

/** How long other tabs may take to answer, in milliseconds. */
const answerTime = 300;

export class Secret {
  #waiting: (() => void)[] = [];

  constructor(
    readonly store: Store,
    readonly tabs: Tabs,
    readonly name: string,
  ) {
    tabs.onmessage = (e) => this.#hear(e.data);
  }

  /** The secret; "" when this tab has none. */
  get value(): string {
    return this.store.getItem(this.name) ?? "";
  }

  /** Keeps the secret of a new login, here and in the other tabs. */
  keep(secret: string): void {
    this.store.setItem(this.name, secret);
    this.tabs.postMessage({ secret });
  }

  /** Forgets a secret that is no longer valid. */
  forget(): void {
    this.store.removeItem(this.name);
  }

  /** Asks the other tabs. Returns "" when none has it. */
  async ask(): Promise<string> {
    await new Promise<void>((done) => {
      this.#waiting.push(done);
      setTimeout(done, answerTime);
      this.tabs.postMessage("ask");
    });
    return this.value;
  }

  #hear(message: unknown): void {
    if (message === "ask") {
      const secret = this.value;
      if (secret !== "") this.tabs.postMessage({ secret });
      return;
    }
    if (typeof message !== "object" || message === null || !("secret" in message)) return;
    if (typeof message.secret !== "string" || message.secret === "") return;
    this.store.setItem(this.name, message.secret);
    for (const done of this.#waiting.splice(0)) done();
  }
}

let own: Secret | undefined;

/** The secret of this page. Pages of one origin below several paths are of several servers. */
export function secret(): Secret {
  const name = `culprit ${location.pathname}`;
  own ??= new Secret(sessionStorage, new BroadcastChannel(name), name);
  return own;
}
