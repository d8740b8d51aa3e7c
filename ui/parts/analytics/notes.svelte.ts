// Asks for what happened in the time that is shown, and changes the notes.

import type { Note } from "../../data/api";
import { get, post, say } from "../../data/client";
import { said } from "../../state/said.svelte";
import { server } from "../../state/server.svelte";
import { type Range, stretch } from "../../state/time";

/** How often new notes are asked for, in milliseconds. */
const often = 15_000;

export class NoteFeed {
  list = $state.raw<readonly Note[]>([]);
  /** Older ones that were not sent. */
  more = $state(0);
  /** Statistics whose events could not be read. */
  unread = $state.raw<readonly string[]>([]);
  #load: () => void = () => {};

  /**
   * Follows a time, with the events that recorded statistics show or without. Returns a function
   * that ends it.
   */
  show(range: Range, events: boolean): () => void {
    const stop = new AbortController();
    const load = async () => {
      if (document.hidden) return;
      try {
        const { from, to } = stretch(range, server.at(Date.now()));
        const end = range.kind === "live" ? "now" : String(Math.round(to));
        const answer = await get<{ notes: Note[]; more: number; unread: string[] }>(
          "notes",
          { from: String(Math.round(from)), to: end, events: events ? "1" : undefined },
          stop.signal,
        );
        this.list = answer.notes;
        this.more = answer.more;
        this.unread = answer.unread;
      } catch {
        // The graphs say why the server does not answer.
      }
    };
    this.#load = () => void load();
    void load();
    const again = range.kind === "live" ? setInterval(() => void load(), often) : undefined;
    return () => {
      stop.abort();
      clearInterval(again);
    };
  }

  /** Adds a note; false: it was refused, and the person knows why. */
  async add(text: string, kind: string, at_ms: number): Promise<boolean> {
    return this.#change("notes", { text, kind, at_ms });
  }

  async remove(id: number): Promise<boolean> {
    return this.#change(`notes/${id}/remove`, {});
  }

  async #change(path: string, body: object): Promise<boolean> {
    try {
      await post(path, body);
    } catch (e) {
      said.refuse(say(e));
      return false;
    }
    this.#load();
    return true;
  }
}
