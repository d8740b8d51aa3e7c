// A profile that is in the document, packed by gzip, as base64: culprit writes it there.

import { type Profile, profileSoon } from "./profile";

/** What the document says of the profile. */
export interface About {
  title: string;
  note: string;
}

/** The text of an element, which is removed: it may be large. */
function taken(id: string): string {
  const e = document.getElementById(id);
  const text = e?.textContent ?? "";
  e?.remove();
  return text;
}

export function about(): About {
  return JSON.parse(taken("about") || '{"title":"Flame graph","note":""}') as About;
}

/** The profile of an element; null: there is none. */
export async function embedded(id: string): Promise<Profile | null> {
  const text = taken(id);
  if (text === "") return null;
  const packed = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return profileSoon(await new Response(packed).arrayBuffer());
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const letters = atob(base64);
  const out = new Uint8Array(letters.length);
  for (let i = 0; i < out.length; i++) out[i] = letters.charCodeAt(i);
  return out;
}

/** When the document is whole: the profile stands behind the script. */
export function whole(): Promise<void> {
  return new Promise((done) => {
    if (document.readyState === "loading")
      document.addEventListener("DOMContentLoaded", () => done(), { once: true });
    else done();
  });
}
