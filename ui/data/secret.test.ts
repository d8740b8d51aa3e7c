import { describe, expect, it } from "vitest";
import { Secret, type Store, type Tabs } from "./secret";

/** Tabs that hear each other, as pages of one origin do. */
function tabs(count: number): { secret: Secret; said: unknown[] }[] {
  const all: (Tabs & { said: unknown[] })[] = [];
  const out: { secret: Secret; said: unknown[] }[] = [];
  for (let i = 0; i < count; i++) {
    const kept = new Map<string, string>();
    const store: Store = {
      getItem: (k) => kept.get(k) ?? null,
      setItem: (k, v) => void kept.set(k, v),
      removeItem: (k) => void kept.delete(k),
    };
    const tab: Tabs & { said: unknown[] } = {
      said: [],
      onmessage: null,
      postMessage(data) {
        this.said.push(data);
        for (const t of all)
          if (t !== this) queueMicrotask(() => t.onmessage?.({ data } as MessageEvent));
      },
    };
    all.push(tab);
    out.push({ secret: new Secret(store, tab, "culprit /"), said: tab.said });
  }
  return out;
}

describe("the secret of a session", () => {
  it("comes from another tab that has it", async () => {
    const [first, second] = tabs(2);
    first!.secret.store.setItem("culprit /", "s1");
    expect(await second!.secret.ask()).toBe("s1");
    expect(second!.secret.value).toBe("s1");
  });

  it("is missing where no tab has it", async () => {
    const [first, second] = tabs(2);
    expect(await second!.secret.ask()).toBe("");
    expect(first!.said).toEqual([]);
  });

  it("of a new login replaces the old one in all tabs", async () => {
    const [first, second] = tabs(2);
    first!.secret.keep("s1");
    await Promise.resolve();
    second!.secret.keep("s2");
    await Promise.resolve();
    expect([first!.secret.value, second!.secret.value]).toEqual(["s2", "s2"]);
  });

  it("is not taken from a message of another form", async () => {
    const [first, second] = tabs(2);
    for (const message of [null, 1, "secret", {}, { secret: 5 }, { secret: "" }])
      first!.secret.tabs.postMessage(message);
    await Promise.resolve();
    expect(second!.secret.value).toBe("");
  });

  it("can be forgotten", () => {
    const [first] = tabs(1);
    first!.secret.keep("s1");
    first!.secret.forget();
    expect(first!.secret.value).toBe("");
  });
});
