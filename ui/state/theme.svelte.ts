// Dark or light: what the system prefers, until somebody chooses. The choice is kept by this
// browser, it is nothing of the view.

export type Choice = "system" | "dark" | "light";
const key = "culprit.theme";

class Theme {
  #choice = $state<Choice>("system");
  #dark = $state(true);

  /** Takes up what was chosen before, and follows the system. */
  begin(): void {
    try {
      const kept = localStorage.getItem(key);
      if (kept === "dark" || kept === "light") this.#choice = kept;
    } catch {
      // A browser that keeps nothing has the system's.
    }
    const prefers = matchMedia("(prefers-color-scheme: dark)");
    const set = () => {
      this.#dark = this.#choice === "system" ? prefers.matches : this.#choice === "dark";
      document.documentElement.dataset.theme = this.#dark ? "dark" : "light";
    };
    prefers.addEventListener("change", set);
    this.#set = set;
    set();
  }

  #set = () => {};

  get choice(): Choice {
    return this.#choice;
  }

  /** What is shown. Canvases look at it to draw anew. */
  get dark(): boolean {
    return this.#dark;
  }

  /** The other one; back to the system's when that is the same. */
  turn(): void {
    const want: Choice = this.#dark ? "light" : "dark";
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.#choice = want === system ? "system" : want;
    try {
      if (this.#choice === "system") localStorage.removeItem(key);
      else localStorage.setItem(key, want);
    } catch {
      // Then it holds until the page is closed.
    }
    this.#set();
  }
}

export const theme = new Theme();
