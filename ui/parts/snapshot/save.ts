// Hands out a snapshot of what is shown.

import { say } from "../../data/client";
import { moment } from "../../draw/axis";
import type { analytics } from "../../state/analytics";
import { here } from "../../state/here.svelte";
import type { State } from "../../state/param";
import { place, printPlace } from "../../state/place";
import { said } from "../../state/said.svelte";
import { server } from "../../state/server.svelte";
import { stretch } from "../../state/time";
import { young } from "../../state/young.svelte";
import { handOut } from "../analytics/save";
import { most } from "../analytics/sheet.svelte";
import { type Graph, makeSnapshot } from "./make";

/** Saves the graphs of a worksheet, and the other views, of the time in sight as one file. */
export async function saveSnapshot(
  graphs: readonly Graph[],
  columns: number,
  state: State<typeof analytics>,
): Promise<void> {
  const health = server.health;
  if (!health) return;
  const now = server.now;
  const time = young.still();
  const at = printPlace(place("analytics", state, time)).slice(1);
  const about = { version: health.version, host: health.host, at: now, place: at };
  const { host, events } = state;
  const when = { ...stretch(time, now), columns, top: most, host, events };
  try {
    const file = await makeSnapshot(graphs, when, here.of("profile").p, about);
    handOut(file, `culprit ${health.host} ${moment(now).replaceAll(":", "")}.html`, "text/html");
  } catch (e) {
    said.refuse(say(e));
  }
}
