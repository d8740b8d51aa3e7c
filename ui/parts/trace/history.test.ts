import { expect, it } from "vitest";
import { history, remember, title } from "./history";

function store(content: string | null = null) {
  let kept = content;
  return {
    getItem: () => kept,
    setItem: (_: string, v: string) => {
      kept = v;
    },
  };
}

it("keeps what was run, the newest first, each once", () => {
  const s = store();
  remember(s, "a", 1);
  remember(s, "b", 2);
  remember(s, "a", 3);
  expect(history(s)).toEqual([
    { at: 3, text: "a" },
    { at: 2, text: "b" },
  ]);
  for (let i = 0; i < 60; i++) remember(s, `n${i}`, i);
  expect(history(s).length).toBe(40);
  remember(s, "x".repeat(20_000), 9);
  expect(history(s)[0]!.text).toBe("n59");
});

it("takes nothing of what it did not write", () => {
  for (const text of ["{", "7", '[{"at":"x","text":1},null,{"at":1,"text":"a"}]'])
    expect(history(store(text)).length).toBeLessThan(2);
  expect(history(null)).toEqual([]);
  const full = {
    getItem: () => null,
    setItem: () => {
      throw new Error("full");
    },
  };
  expect(remember(full, "a", 1)).toEqual([{ at: 1, text: "a" }]);
});

it("names a program by its first words", () => {
  expect(title("#pragma D option quiet\n/* x */\nBEGIN\n{\n\texit(0);\n}")).toBe(
    "BEGIN { exit(0); }",
  );
  expect(title("a ".repeat(100)).length).toBe(70);
});
