import { expect, it } from "vitest";
import type { Question } from "../../data/api";
import { priceOf } from "./questions";

const question = (more: Partial<Question>): Question => ({
  text: "Is it slow?",
  query: "a.b",
  wider: [],
  recorded: false,
  ...more,
});

it("has the price of what is recorded by a click, and none of what is recorded already", () => {
  expect(priceOf(question({ recorded: true, cpu: 0.1 }))).toBe("");
  expect(priceOf(question({ cpu: 0.0123 }))).toBe("starts recording: about 1.2 % of a CPU");
  expect(priceOf(question({ cpu: 8e-5 }))).toBe("starts recording: less than 0.1 % of a CPU");
  expect(priceOf(question({ traced: true, cpu: null }))).toBe(
    "starts tracing; its cost is measured while it runs",
  );
});
