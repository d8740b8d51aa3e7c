import { here } from "../../state/here.svelte";
import { permalink } from "../../state/place";
import { copy } from "../../state/said.svelte";
import { server } from "../../state/server.svelte";

/** Copies the link that shows the same tomorrow. */
export function share(): void {
  const url = new URL(location.href);
  url.search = "";
  url.hash = permalink(here.place, server.now);
  void copy(url.href, "link");
}
