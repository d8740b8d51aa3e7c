// A snapshot: the page and the answers that it shows, in one file that opens without a server.

/** The form of the data. A page reads its own only. */
const format = 2;

/** The element of a snapshot's file that has its data. */
const element = "culprit-snapshot";

/** The most bytes of all answers together. */
export const mostBytes = 32 << 20;

/** An answer of the server: its content type, and its bytes in base64. */
interface Kept {
  type: string;
  body: string;
  /** Of a refusal. */
  status?: number;
}

/** An answer that is to be kept. */
export interface Reply {
  address: string;
  type: string;
  body: ArrayBuffer;
  /** Of a refusal; absent: 200. */
  status?: number;
}

/** What the snapshot has beside the worksheet. */
export interface Extent {
  /** Why a view is not in it, by its name; a view without a reason is. */
  absent: Record<string, string>;
  /** The profile that it has; "": none. */
  profile: string;
}

interface Content extends Extent {
  format: number;
  /** Of the program that made it. */
  version: string;
  host: string;
  /** When it was made, in milliseconds. */
  at: number;
  /** What the address has after its #. */
  place: string;
  answers: Record<string, Kept>;
}

/** Why a file can't be shown, as a sentence; or its content. */
export function readContent(text: string): Content | string {
  let c: Partial<Content>;
  try {
    c = JSON.parse(text) as Partial<Content>;
  } catch {
    return "This snapshot is damaged: its data can't be read. Save it again.";
  }
  if (c.format !== format)
    return `This snapshot was made by culprit ${c.version ?? "of an unknown version"} with data of format ${c.format ?? "?"}; the page in it reads format ${format}. Open the file as it was saved, or save it again.`;
  const objects = [c.answers, c.absent].every((x) => typeof x === "object" && x !== null);
  if (typeof c.place !== "string" || typeof c.profile !== "string" || !objects)
    return "This snapshot is damaged: parts of its data are missing. Save it again.";
  return c as Content;
}

/**
 * The name of an answer: its address without how wide the window was, which differs where the
 * snapshot is opened.
 */
export function nameOf(address: string): string {
  const [path = "", query = ""] = address.split("?", 2);
  const params = new URLSearchParams(query);
  params.delete("columns");
  params.sort();
  return `${path}?${params}`;
}

export function base64(bytes: Uint8Array): string {
  let out = "";
  for (let i = 0; i < bytes.length; i += 0x8000)
    out += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(out);
}

/** The answers of a snapshot that is made. */
export class SnapshotMaker {
  private answers: Record<string, Kept> = {};
  private size = 0;

  /** Keeps answers, all or none; throws when they are too large with those before. */
  keep(...replies: Reply[]): void {
    const size = replies.reduce((sum, r) => sum + r.body.byteLength, this.size);
    if (size > mostBytes)
      throw new Error(`a snapshot has at most ${mostBytes >> 20} MiB: show less`);
    this.size = size;
    for (const { address, type, body, status } of replies) {
      const kept: Kept = { type, body: base64(new Uint8Array(body)) };
      if (status !== undefined) kept.status = status;
      this.answers[nameOf(address)] = kept;
    }
  }

  /** The whole file. script and style are those of the page. */
  file(
    about: Pick<Content, "version" | "host" | "at" | "place">,
    extent: Extent,
    script: string,
    style: string,
  ): string {
    const content: Content = { format, ...about, ...extent, answers: this.answers };
    const policy =
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";
    // Nothing in a script may look like its end.
    const data = JSON.stringify(content).replaceAll("<", "\\u003c");
    const code = script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
    return `<!doctype html>
<html lang="en"><head><meta charset="utf-8" />
<meta http-equiv="Content-Security-Policy" content="${policy}" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="dark light" />
<title>culprit</title>
<style>${style.replaceAll("</style", "<\\/style")}</style>
</head><body><div id="page"></div>
<script type="application/json" id="${element}">${data}</script>
<script type="module">${code}</script>
</body></html>
`;
  }
}

/** The snapshot that this page is opened from. */
export class Snapshot {
  constructor(readonly content: Content) {}

  /** The answer of a request, or its refusal; null when the snapshot has none. */
  answer(address: string): Response | null {
    const kept = this.content.answers[nameOf(address)];
    if (!kept) return null;
    const text = atob(kept.body);
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const { status = 200, type } = kept;
    return new Response(bytes, { status, headers: { "Content-Type": type } });
  }
}

/** The snapshot of this file; a sentence why it can't be shown; null: there is a server. */
export const snapshot: Snapshot | string | null = (() => {
  const text = typeof document === "undefined" ? null : document.getElementById(element);
  if (!text) return null;
  const content = readContent(text.textContent ?? "");
  return typeof content === "string" ? content : new Snapshot(content);
})();
