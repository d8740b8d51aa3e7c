// The login of this browser: whether the page asks for a token now.

class Session {
  #asking = $state(false);
  #answer: ((loggedIn: boolean) => void) | undefined;

  /** Whether the page asks for a token. */
  get asking(): boolean {
    return this.#asking;
  }

  /** Asks for a token. Returns whether the person has logged in. */
  ask(): Promise<boolean> {
    this.answer(false); // a question before this one
    return new Promise((done) => {
      this.#answer = done;
      this.#asking = true;
    });
  }

  /** Ends the question. */
  answer(loggedIn: boolean): void {
    this.#asking = false;
    this.#answer?.(loggedIn);
    this.#answer = undefined;
  }
}

export const session = new Session();
