// Server-Sent Events, as the HTML standard has them, out of text that comes in pieces.

export interface Event {
  /** "message" when the server gave none. */
  name: string;
  data: string;
  id: string;
}

/** Takes text in pieces and reports each event when it is complete. */
export class Events {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id = "";
  #first = true;

  constructor(private readonly each: (e: Event) => void) {}

  /** Takes the next piece, however it was cut. */
  push(piece: string): void {
    let text = this.#rest + piece;
    if (this.#first && text !== "") {
      if (text.startsWith("\ufeff")) text = text.slice(1);
      this.#first = false;
    }
    let from = 0;
    for (;;) {
      const end = text.slice(from).search(/[\r\n]/);
      if (end < 0) break;
      const at = from + end;
      // A \r at the end of a piece may be half of a line end.
      if (text[at] === "\r" && at + 1 === text.length) break;
      this.#line(text.slice(from, at));
      from = at + (text[at] === "\r" && text[at + 1] === "\n" ? 2 : 1);
    }
    this.#rest = text.slice(from);
  }

  #line(line: string): void {
    if (line === "") {
      if (this.#data.length > 0)
        this.each({ name: this.#name || "message", data: this.#data.join("\n"), id: this.#id });
      this.#name = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment: the server says that it is there
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
  }
}
