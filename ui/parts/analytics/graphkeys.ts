// The keys of the graph that is pointed at.

import type { Key } from "../../state/keys.svelte";
import { said } from "../../state/said.svelte";
import { crops, earliers, type Options } from "./graph";

/** What the keys do that is more than a change of how the graph is shown. */
export interface Actions {
  change(part: Partial<Options>): void;
  maximum(): void;
  minimum(): void;
  drill(): void;
  exclude(): void;
  isolate(): void;
  heat(): void;
  move(by: -1 | 1): void;
  close(): void;
  clear(): void;
}

/** How the graph is shown when a key is pressed. */
export interface Shown {
  options(): Options;
  mayStack(): boolean;
  /** It may be compared with an earlier time. */
  comparable(): boolean;
}

export function graphKeys(now: Shown, act: Actions): Key[] {
  const stack = () => {
    if (now.mayStack()) act.change({ stack: !now.options().stack });
    else said.say("these rows do not add up: lines only");
  };
  const crop = () => {
    const i = crops.indexOf(now.options().crop as (typeof crops)[number]);
    act.change({ crop: crops[(i + 1) % crops.length]! });
  };
  const earlier = () => {
    if (!now.comparable()) said.say("only lines and stacks are compared with an earlier time");
    else {
      const at = [0, ...earliers].indexOf(now.options().earlier);
      act.change({ earlier: [0, ...earliers, 0][at + 1]! });
    }
  };
  const table = () => act.change({ table: !now.options().table });
  const fold = () => act.change({ fold: !now.options().fold });
  const wire = () => act.change({ wire: now.options().wire === "bit" ? "byte" : "bit" });
  return [
    { keys: ["m"], what: "next maximum", run: () => act.maximum() },
    { keys: ["M"], what: "next minimum", run: () => act.minimum() },
    { keys: ["d"], what: "drill down into the selected row", run: () => act.drill() },
    { keys: ["x"], what: "exclude the selected rows", run: () => act.exclude() },
    { keys: ["i"], what: "isolate the selected rows", run: () => act.isolate() },
    { keys: ["s"], what: "lines or stacked", run: stack },
    { keys: ["w"], what: "heat map or lines", run: () => act.heat() },
    { keys: ["l"], what: "logarithmic axis", run: () => act.change({ log: !now.options().log }) },
    { keys: ["u"], what: "bytes or bits per second", run: wire },
    { keys: ["c"], what: "cut off outliers", run: crop },
    { keys: ["b"], what: "compare with an hour, a day, a week before", run: earlier },
    { keys: ["v"], what: "the numbers as a table", run: table },
    { keys: ["e"], what: "fold or unfold the graph", run: fold },
    { keys: ["<"], what: "move the graph up", run: () => act.move(-1) },
    { keys: [">"], what: "move the graph down", run: () => act.move(1) },
    { keys: ["Delete"], what: "close the graph", run: () => act.close() },
    { keys: ["Escape"], what: "clear selection", run: () => act.clear() },
  ];
}
