// Asks a sentence over a time.

import { bytes, type Params } from "./client";
import { type Answer, binaryType, fromBinary, fromJSON } from "./columns";

/**
 * When and how fine. Without a step the server takes the smallest that returns at most so many
 * columns.
 */
export interface When {
  from: number;
  to: number;
  step?: number;
  columns?: number;
  /** The most rows; the others come folded into one where that makes sense. */
  top?: number;
}

/** What is sent to the server. */
export function paramsOf(sentence: string, when: When): Params {
  return {
    q: sentence,
    from: when.from,
    to: when.to,
    step: when.step,
    columns: when.step === undefined ? when.columns : undefined,
    top: when.top,
  };
}

/** The answer; throws Trouble when there is none. */
export async function ask(sentence: string, when: When, signal?: AbortSignal): Promise<Answer> {
  const answer = await bytes("ask", paramsOf(sentence, when), binaryType, signal);
  return answer.headers.get("Content-Type")?.startsWith(binaryType)
    ? fromBinary(await answer.arrayBuffer())
    : fromJSON(await answer.json());
}
