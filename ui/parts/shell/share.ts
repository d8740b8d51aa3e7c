import { here } from "../../state/here.svelte";
import { printPlace } from "../../state/place";
import { copy } from "../../state/said.svelte";
import { young } from "../../state/young.svelte";

/** Copies the link that shows the same tomorrow. */
export function share(): void {
  const url = new URL(location.href);
  url.search = "";
  url.hash = printPlace({ ...here.place, time: young.still() });
  void copy(url.href, "link");
}
