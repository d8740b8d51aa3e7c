import { expect, test } from "vitest";
import { Trouble } from "./client";
import { persist } from "./persist";

const away = () => new Trouble("No connection to culprit", 0, "unreachable");
const now = async (): Promise<void> => {};

test("what was first asked while the server was away is answered when it is back", async () => {
  const answers: (() => string)[] = [
    () => {
      throw away();
    },
    () => {
      throw new Trouble("busy", 503, "busy");
    },
    () => "rows",
  ];
  const reported: number[] = [];
  const got = await persist(
    async () => answers.shift()!(),
    new AbortController().signal,
    (t) => reported.push(t.status),
    now,
  );
  expect(got).toBe("rows");
  expect(reported).toEqual([0, 503]);
});

test("a refusal is not asked again", async () => {
  for (const status of [400, 401, 404, 413, 500]) {
    let asked = 0;
    const refused = persist(
      async () => {
        asked++;
        throw new Trouble("no", status);
      },
      new AbortController().signal,
      () => {},
      now,
    );
    await expect(refused).rejects.toThrow("no");
    expect(asked).toBe(1);
  }
});

test("what nobody wants any more is not asked again", async () => {
  const stop = new AbortController();
  let asked = 0;
  const ended = persist(
    async () => {
      asked++;
      throw away();
    },
    stop.signal,
    () => stop.abort(),
  );
  await expect(ended).rejects.toThrow();
  expect(asked).toBe(1);
});
