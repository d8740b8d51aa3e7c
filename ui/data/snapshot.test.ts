import { describe, expect, it } from "vitest";
import { base64, mostBytes, nameOf, readContent, Snapshot, SnapshotMaker } from "./snapshot";

const extent = { absent: { trace: "it needs a server" }, profile: "1..2" };
const about = { version: "1.2", host: "web<1>", at: 5, place: "analytics?q=a" };
const bytes = (text: string): ArrayBuffer => new TextEncoder().encode(text).buffer as ArrayBuffer;
const dataOf = (file: string): string =>
  /<script type="application\/json"[^>]*>(.*)<\/script>\n<script type="module">/s.exec(file)![1]!;

describe("a snapshot", () => {
  it("has the answers, whatever they contain, and whatever the width of the window", async () => {
    const maker = new SnapshotMaker();
    const hostile = "</script><!-- \u2028 é";
    maker.keep({
      address: "api/ask?q=a+b&columns=900&from=1",
      type: "application/json",
      body: bytes(hostile),
    });
    const file = maker.file(about, extent, 'x = "</script><!--"', "a{} </style>");
    expect(file.match(/<\/script>/g)).toHaveLength(2);
    expect(file.match(/<\/style>/g)).toHaveLength(1);
    const content = readContent(dataOf(file));
    if (typeof content === "string") throw new Error(content);
    expect(content.host).toBe("web<1>");
    expect(content).toMatchObject(extent);
    const shown = new Snapshot(content);
    const answer = shown.answer("api/ask?from=1&q=a+b&columns=120");
    expect(await answer!.text()).toBe(hostile);
    expect(answer!.headers.get("Content-Type")).toBe("application/json");
    expect(shown.answer("api/ask?from=2&q=a+b")).toBeNull();
    expect(shown.answer("api/ask?from=1&q=a+b&host=x")).toBeNull();
  });

  it("of another version is refused in a sentence", () => {
    const file = new SnapshotMaker().file(about, extent, "", "");
    expect(readContent(dataOf(file).replace('"format":2', '"format":3'))).toBe(
      "This snapshot was made by culprit 1.2 with data of format 3; the page in it reads format 2. Open the file as it was saved, or save it again.",
    );
    expect(readContent("{}")).toContain("of an unknown version");
    expect(readContent('{"format":2}')).toContain("damaged");
    expect(readContent(dataOf(file).slice(0, 40))).toContain("damaged");
  });

  it("keeps a refusal as one", async () => {
    const maker = new SnapshotMaker();
    const type = "application/json";
    const body = bytes('{"error":{"message":"not recorded"}}');
    maker.keep({ address: "api/ask?q=a", type, body, status: 404 });
    const content = readContent(dataOf(maker.file(about, extent, "", "")));
    if (typeof content === "string") throw new Error(content);
    const answer = new Snapshot(content).answer("api/ask?q=a")!;
    expect([answer.ok, answer.status]).toEqual([false, 404]);
    expect(await answer.text()).toContain("not recorded");
  });

  it("is bounded, and keeps all answers of a view or none", () => {
    const maker = new SnapshotMaker();
    const reply = (address: string, size: number) => ({
      address,
      type: "",
      body: new ArrayBuffer(size),
    });
    maker.keep(reply("a", 1 << 10));
    expect(() => maker.keep(reply("b", 1), reply("c", mostBytes))).toThrow("at most 32 MiB");
    maker.keep(reply("d", 1));
    const content = readContent(dataOf(maker.file(about, extent, "", "")));
    if (typeof content === "string") throw new Error(content);
    expect(Object.keys(content.answers)).toEqual(["a?", "d?"]);
  });

  it("has large answers", () => {
    expect(base64(new Uint8Array(100_000).fill(65))).toBe(btoa("A".repeat(100_000)));
    expect(nameOf("api/health")).toBe("api/health?");
  });
});
