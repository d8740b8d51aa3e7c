// Calls of folded stacks, as tests write them: "main;work;copy 3", a name with its module as
// module`name. The page itself has the server read files.

import { Merger } from "./calls";
import type { Calls, Functions } from "./profile";

/** The calls of lines; two numbers in a line are what was before, and after. */
export function folded(text: string): Calls {
  const names = ["all"];
  const modules = [""];
  const module = [0];
  const kind = [0];
  const at = new Map<string, number>();
  const lines = text
    .trim()
    .split("\n")
    .map((line) => /^(.*?) (?:([\d.]+) )?([\d.]+)$/.exec(line.trim())!);
  const stacks = lines.map(([, stack, before, after]) => {
    const path = stack!.split(";").map((frame) => {
      const known = at.get(frame);
      if (known !== undefined) return known;
      const [m, name] = frame.includes("`") ? (frame.split("`") as [string, string]) : ["", frame];
      if (!modules.includes(m)) modules.push(m);
      names.push(name);
      module.push(modules.indexOf(m));
      kind.push(m === "kernel" ? 1 : 0);
      at.set(frame, names.length - 1);
      return names.length - 1;
    });
    return {
      path,
      before: before === undefined ? undefined : Number(before),
      after: Number(after),
    };
  });
  const functions: Functions = {
    names,
    module: Uint32Array.from(module),
    modules,
    file: new Uint32Array(names.length),
    files: [""],
    line: new Uint32Array(names.length),
    kind: Uint8Array.from(kind),
  };
  const compared = stacks.some((s) => s.before !== undefined);
  const merger = new Merger(functions, compared);
  for (const s of stacks) {
    let node = 0;
    for (const f of s.path) node = merger.child(node, f);
    merger.add(node, s.after, s.before ?? 0);
  }
  return merger.calls();
}

/** The calls as lines again, in the order of the nodes: names, own amount, total. */
export function listed(c: Calls): string[] {
  return Array.from(
    c.fn,
    (f, i) =>
      `${" ".repeat(c.depth[i]!)}${i === 0 ? "all" : c.functions.names[f]} ${c.self[i]} ${c.total[i]}`,
  );
}
