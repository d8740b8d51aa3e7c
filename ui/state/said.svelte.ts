// The line at the foot of the page that says what was just done: "copied", "suspended 12". It goes
// by itself.

class Said {
  #text = $state("");
  #wrong = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;

  get text(): string {
    return this.#text;
  }

  /** Whether it says that something was not done. */
  get wrong(): boolean {
    return this.#wrong;
  }

  say(text: string): void {
    this.#show(text, false, 4000);
  }

  /** Says that something was not done, and why: long enough to be read. */
  refuse(text: string): void {
    this.#show(text, true, 20_000);
  }

  #show(text: string, wrong: boolean, ms: number): void {
    this.#text = text;
    this.#wrong = wrong;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#text = "";
    }, ms);
  }
}

export const said = new Said();

/** Puts a text where it can be pasted from, and says so. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    said.say(`${what} copied`);
  } catch {
    // Without TLS, and not on this machine, a browser has no clipboard API: copy by a selection.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "away";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    said.say(done ? `${what} copied` : "the browser did not allow copying");
  }
}
