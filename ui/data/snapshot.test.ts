import { describe, expect, it } from "vitest";
import { base64, mostBytes, nameOf, readContent, Snapshot, SnapshotMaker } from "./snapshot";

const about = { version: "1.2", host: "web<1>", at: 5, place: "analytics?q=a" };
const bytes = (text: string): ArrayBuffer => new TextEncoder().encode(text).buffer as ArrayBuffer;
const dataOf = (file: string): string =>
  /<script type="application\/json"[^>]*>(.*)<\/script>\n<script type="module">/s.exec(file)![1]!;

describe("a snapshot", () => {
  it("has the answers, whatever they contain, and whatever the width of the window", async () => {
    const maker = new SnapshotMaker();
    const hostile = "</script><!-- \u2028 é";
    maker.keep("api/ask?q=a+b&columns=900&from=1", "application/json", bytes(hostile));
    const file = maker.file(about, 'x = "</script><!--"', "a{} </style>");
    expect(file.match(/<\/script>/g)).toHaveLength(2);
    expect(file.match(/<\/style>/g)).toHaveLength(1);
    const content = readContent(dataOf(file));
    if (typeof content === "string") throw new Error(content);
    expect(content.host).toBe("web<1>");
    const shown = new Snapshot(content);
    const answer = shown.answer("api/ask?from=1&q=a+b&columns=120");
    expect(await answer!.text()).toBe(hostile);
    expect(answer!.headers.get("Content-Type")).toBe("application/json");
    expect(shown.answer("api/ask?from=2&q=a+b")).toBeNull();
    expect(shown.answer("api/ask?from=1&q=a+b&host=x")).toBeNull();
  });

  it("of another version is refused in a sentence", () => {
    const file = new SnapshotMaker().file(about, "", "");
    expect(readContent(dataOf(file).replace('"format":1', '"format":2'))).toBe(
      "This snapshot was made by culprit 1.2 with data of format 2; the page in it reads format 1. Open the file as it was saved, or save it again.",
    );
    expect(readContent("{}")).toContain("of an unknown version");
    expect(readContent('{"format":1}')).toContain("damaged");
    expect(readContent(dataOf(file).slice(0, 40))).toContain("damaged");
  });

  it("is bounded", () => {
    const maker = new SnapshotMaker();
    maker.keep("a", "", new ArrayBuffer(1 << 10));
    expect(() => maker.keep("b", "", new ArrayBuffer(mostBytes))).toThrow("at most 32 MiB");
  });

  it("has large answers", () => {
    expect(base64(new Uint8Array(100_000).fill(65))).toBe(btoa("A".repeat(100_000)));
    expect(nameOf("api/health")).toBe("api/health?");
  });
});
