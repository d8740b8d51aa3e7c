// The named worksheets of the server.

import type { Worksheet } from "../../data/api";
import { get, post, say, Trouble } from "../../data/client";
import { said } from "../../state/said.svelte";

/** How often it is looked whether somebody else saved the worksheet, in milliseconds. */
const often = 20_000;

/** What came of saving: the worksheet as it is kept; or what was in the way. */
export type Saved = { kept: Worksheet } | { conflict: string } | { refused: string };

export class Worksheets {
  list = $state.raw<readonly Worksheet[] | null>(null);
  /** Why there is no list; "" where there is one. */
  problem = $state("");

  /** Reads the list, and again from time to time. Returns a function that ends it. */
  follow(): () => void {
    void this.load();
    const again = setInterval(() => {
      if (!document.hidden) void this.load();
    }, often);
    return () => clearInterval(again);
  }

  async load(): Promise<void> {
    try {
      const a = await get<{ worksheets: Worksheet[]; problem: string }>("worksheets");
      this.list = a.worksheets;
      this.problem = a.problem;
    } catch (e) {
      this.problem = say(e);
    }
  }

  async save(one: Pick<Worksheet, "id" | "version" | "name" | "state">): Promise<Saved> {
    try {
      const kept = await post<Worksheet>("worksheets", one);
      await this.load();
      return kept ? { kept } : { refused: "the server sent no answer" };
    } catch (e) {
      await this.load();
      return e instanceof Trouble && e.code === "conflict"
        ? { conflict: e.message }
        : { refused: say(e) };
    }
  }

  /** Removes a version; says why where it can't. */
  async remove(one: Worksheet): Promise<void> {
    try {
      await post(`worksheets/${one.id}/remove`, { version: one.version });
      said.say(`removed ${one.name}`);
    } catch (e) {
      said.refuse(say(e));
    }
    await this.load();
  }
}
