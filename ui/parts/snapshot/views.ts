// What the views of a snapshot beside the worksheet ask the server for: the same requests as the
// views make of a time in the past.

import type { Dated, Kept } from "../../data/api";
import { paramsOf, type When } from "../../data/ask";
import { type Params, Trouble } from "../../data/client";
import { binaryType, fromBinary } from "../../data/columns";
import { profileType } from "../../data/profile";
import { asks, whenAsked } from "../../data/use/shapes";
import type { Moments } from "../../state/time";
import { around, episodes, evidenceOf, evidenceWhen } from "../findings/episodes";
import { whoAsks, whoWhen } from "../now/who";
import { mapQuery, mapWhen, nameOf, secondsOf, wholeOf } from "../profile/seconds";

/** Asks, and keeps the answer; null: the server refused, which is kept too. */
export type Keep = (path: string, params: Params, accept: string) => Promise<ArrayBuffer | null>;
/** Keeps an answer under the address of a request. */
export type Put = (path: string, params: Params, type: string, body: ArrayBuffer) => void;

const json = "application/json";
/** Episodes whose evidence has its graphs: the newest. */
const mostEpisodes = 12;

const decode = <T>(body: ArrayBuffer): T => JSON.parse(new TextDecoder().decode(body)) as T;
const encode = (value: unknown): ArrayBuffer =>
  new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;

/** Now, and the diagnoses of the time. */
export async function keepNow(m: Moments, keep: Keep): Promise<void> {
  const one = (sentence: string, when: When) => keep("ask", paramsOf(sentence, when), binaryType);
  for (const sentence of Object.values(asks)) await one(sentence, whenAsked(m.from, m.to));
  for (const w of whoAsks) await one(w.sentence, whoWhen(m));
  await keep("findings", { from: m.from, to: m.to }, json);
}

/** The findings of the time, with the graphs of their evidence. */
export async function keepFindings(m: Moments, keep: Keep): Promise<void> {
  const body = await keep("findings", { from: m.from, to: m.to }, json);
  if (!body) throw new Trouble("the diagnoses of the time can't be read", 0);
  const { reports } = decode<{ reports: Dated[] | null }>(body);
  for (const e of episodes(reports ?? []).slice(0, mostEpisodes))
    for (const sentence of evidenceOf(e))
      await keep("ask", paramsOf(sentence, evidenceWhen(around(e))), binaryType);
}

/**
 * The map of the recorded samples, and one profile, whose name is returned: the one that is
 * chosen, else of all samples of the time.
 */
export async function keepProfile(
  m: Moments,
  chosen: string,
  keep: Keep,
  put: Put,
): Promise<string> {
  const body = await keep("ask", paramsOf(mapQuery, mapWhen(m.from, m.to)), binaryType);
  const whole = body ? wholeOf(secondsOf(fromBinary(body), 1)) : null;
  const name = chosen !== "" ? chosen : whole ? nameOf(whole) : "";
  if (name === "") throw new Trouble("no stacks are recorded in this time", 404);
  if (!(await keep("profile", { id: name }, profileType)))
    throw new Trouble("the profile can't be read", 404);
  // Of the kept profiles the one that is in the snapshot.
  const list = await keep("profiles", {}, json);
  const { profiles } = list ? decode<{ profiles: Kept[] }>(list) : { profiles: [] };
  put("profiles", {}, json, encode({ profiles: profiles.filter((p) => p.id === name) }));
  return name;
}
