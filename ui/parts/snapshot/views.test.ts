import { describe, expect, it } from "vitest";
import { address, type Params } from "../../data/client";
import { asks } from "../../data/use/shapes";
import { whoAsks } from "../now/who";
import { type Keep, keepFindings, keepNow, keepProfile } from "./views";

const time = { from: 1_000_000, to: 1_060_000 };

/** Answers by the path of a request, and the addresses that were asked for. */
function server(answers: Record<string, ArrayBuffer | null>): { keep: Keep; asked: string[] } {
  const asked: string[] = [];
  const keep = async (path: string, params: Params): Promise<ArrayBuffer | null> => {
    asked.push(address(path, params));
    return answers[path] ?? null;
  };
  return { keep, asked };
}

const json = (value: unknown): ArrayBuffer =>
  new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;

/** An answer in columns without rows: a number of cells, each of one step. */
function columns(start: number, step: number, cells: number): ArrayBuffer {
  const head = JSON.stringify({
    query: "",
    kind: "delta",
    unit: "1",
    start_ms: start,
    step_ms: step,
    elapsed_ms: new Array(cells).fill(step),
    by: ["slot"],
    series: [],
  });
  const out = new DataView(new ArrayBuffer((12 + head.length + 7) & ~7));
  out.setUint32(0, 0x434c5054);
  out.setUint8(4, 1);
  out.setUint8(5, 4);
  out.setUint32(8, head.length, true);
  new Uint8Array(out.buffer).set(new TextEncoder().encode(head), 12);
  return out.buffer;
}

const finding = (id: string, statistic: string): object => ({
  id,
  severity: "high",
  evidence: [{ statistic, over: ["1970-01-01T00:16:40Z", "1970-01-01T00:16:50Z"] }],
});

describe("the views of a snapshot", () => {
  it("have what Now asks for", async () => {
    const { keep, asked } = server({});
    await keepNow(time, keep);
    expect(asked).toHaveLength(Object.keys(asks).length + whoAsks.length + 1);
    expect(asked).toContain(
      "api/ask?q=cpu.time+by+mode&from=1000000&to=1060000&columns=600&top=500",
    );
    expect(asked).toContain(
      "api/ask?q=process.cpu+by+process&from=1000000&to=1060000&step=60000&top=20",
    );
    expect(asked.at(-1)).toBe("api/findings?from=1000000&to=1060000");
  });

  it("have the evidence of findings around their time", async () => {
    const report = {
      start: "1970-01-01T00:16:40Z",
      findings: [finding("a", "x.y"), finding("b", "z")],
    };
    const { keep, asked } = server({ findings: json({ reports: [{ at_ms: 1_010_000, report }] }) });
    await keepFindings(time, keep);
    expect(asked.slice(1).sort()).toEqual([
      "api/ask?q=x.y&from=970000&to=1040000&columns=240&top=3",
      "api/ask?q=z&from=970000&to=1040000&columns=240&top=3",
    ]);
    await expect(keepFindings(time, server({}).keep)).rejects.toThrow("can't be read");
  });

  it("have one profile: the chosen one, else that of the whole map, or say that there is none", async () => {
    const profiles = json({ profiles: [{ id: "other" }, { id: "mine" }] });
    const of = async (
      chosen: string,
      ask: ArrayBuffer | null,
    ): Promise<[string, string[], string]> => {
      const { keep, asked } = server({ ask, profile: new ArrayBuffer(8), profiles });
      let list = "";
      const name = await keepProfile(time, chosen, keep, (_path, _params, _type, body) => {
        list = new TextDecoder().decode(body);
      });
      return [name, asked, list];
    };
    const map = columns(1_000_000, 2000, 30);
    const [name, asked, list] = await of("", map);
    expect(name).toBe("1000000..1060000");
    expect(asked).toEqual([
      "api/ask?q=cpu.stack.busy+by+slot&from=1000000&to=1060000&columns=400",
      "api/profile?id=1000000..1060000",
      "api/profiles",
    ]);
    expect(list).toBe('{"profiles":[]}');
    const [mine, , only] = await of("mine", null);
    expect([mine, only]).toEqual(["mine", '{"profiles":[{"id":"mine"}]}']);
    await expect(of("", null)).rejects.toThrow("no stacks are recorded");
  });
});
