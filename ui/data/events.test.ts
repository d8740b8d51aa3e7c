import { expect, it } from "vitest";
import { type Event, Events } from "./events";

const stream =
  '\ufeff: hello\r\nevent: tick\r\ndata: {"a":1}\r\n\r\ndata:one\ndata: two\nid: 7\n\n:\n\nevent: gap\n\ndata\r\rdata: last';

function cut(text: string, at: number[]): Event[] {
  const out: Event[] = [];
  const events = new Events((e) => out.push(e));
  let from = 0;
  for (const to of [...at, text.length]) {
    events.push(text.slice(from, to));
    from = to;
  }
  return out;
}

const want = [
  { name: "tick", data: '{"a":1}', id: "" },
  { name: "message", data: "one\ntwo", id: "7" },
  { name: "message", data: "", id: "7" },
];

it("reads events however the text is cut", () => {
  expect(cut(stream, [])).toEqual(want);
  for (let a = 1; a < stream.length; a++) {
    expect(cut(stream, [a]), `cut at ${a}`).toEqual(want);
    expect(cut(stream, [a, Math.min(a + 1, stream.length)]), `cut at ${a} and after`).toEqual(want);
  }
});

it("does not tell an event that has not ended", () => {
  expect(cut("data: half\n", [])).toEqual([]);
});
