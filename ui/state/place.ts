// Where in the page somebody is: the view, the time and all that the view shows, as the fragment of
// the URL: #analytics?last=1h&q=cpu.time+by+mode. A fragment, because it survives the redirect that
// follows the token, and because what somebody looks at is nothing that a log of requests needs to
// have.

import { analytics } from "./analytics";
import { flag, number, parse, print, type State, text, texts, word } from "./param";
import { fresh, parseRange, printRange, type Range } from "./time";

/** The columns that datasets can be sorted by. */
export const datasetColumns = [
  "sentence",
  "since",
  "state",
  "rows",
  "rate",
  "memory",
  "disk",
  "cpu",
  "loss",
] as const;

/** The columns that a profile's functions can be sorted by. */
export const functionColumns = ["self", "total", "name", "module", "change"] as const;

/** What each view keeps in the URL beside the time. */
export const shapes = {
  now: { all: flag() },
  analytics,
  datasets: { sort: word(datasetColumns, "sentence"), down: flag(), find: text() },
  findings: { open: text(), find: text(), quiet: flag() },
  trace: { d: text(), s: text() },
  /**
   * p: the profile, and of a comparison the one after; a: the one before; per: what both are
   * divided by. at: the way to the call that is zoomed into; l, r: the part of it in sight, as
   * shares. f: the function of the sandwich; only, not: isolated and left out functions.
   */
  profile: {
    p: text(),
    /** Whose time is shown or taken: pid:1234, process:nginx, thread:77, cgroup:/x; "" of all. */
    whose: text(),
    a: text(),
    per: word(["sample", "cpu-second"], "sample"),
    at: text(),
    l: number(0),
    r: number(1),
    find: text(),
    f: text(),
    only: texts(),
    not: texts(),
    order: word(["calls", "callers", "time"], "calls"),
    /** Of the order of time: the thread; -1 the one with the most. */
    thread: number(-1),
    modules: flag(),
    /** Without the stacks of idle CPUs. */
    busy: flag(),
    up: flag(),
    sort: word(functionColumns, "self"),
    down: flag(),
  },
  /** group: a label of the hosts; all: also the hosts beyond the first hundred. */
  hosts: { find: text(), group: text(), all: flag() },
};

export type View = keyof typeof shapes;
export const views = Object.keys(shapes) as View[];

/** The names of the views. */
export const titles: Record<View, string> = {
  now: "Now",
  analytics: "Analytics",
  datasets: "Datasets",
  findings: "Findings",
  trace: "Trace",
  profile: "Profile",
  hosts: "Hosts",
};

export type Here<V extends View> = { view: V; time: Range; state: State<(typeof shapes)[V]> };
export type Place = { [V in View]: Here<V> }[View];

/** A view as it is when nothing was said about it. */
export function place<V extends View>(
  view: V,
  state: Partial<State<(typeof shapes)[V]>> = {},
  time: Range = fresh,
): Place {
  const empty = parse(shapes[view], new URLSearchParams());
  return { view, time, state: { ...empty, ...state } } as unknown as Place;
}

/**
 * The place of a fragment, with or without its #. Any text is a place; an unknown view is Now.
 */
export function parsePlace(fragment: string): Place {
  const [name = "", query = ""] = split(fragment.replace(/^#/, ""), "?");
  const view = views.find((v) => v === name) ?? "now";
  const params = new URLSearchParams(query);
  return { view, time: parseRange(params), state: parse(shapes[view], params) } as unknown as Place;
}

/** The fragment of a place, with its #. */
export function printPlace(p: Place): string {
  const params = new URLSearchParams([
    ...printRange(p.time),
    ...print(shapes[p.view], p.state as never),
  ]);
  // What a person may read and type stays as it is; the rules of a fragment allow it.
  const query = params
    .toString()
    .replace(/%2C/g, ",")
    .replace(/%3A/g, ":")
    .replace(/%2F/g, "/")
    .replace(/%21/g, "!")
    .replace(/%7E/g, "~");
  return `#${p.view}${query === "" ? "" : `?${query}`}`;
}

function split(s: string, at: string): [string, string] {
  const i = s.indexOf(at);
  return i < 0 ? [s, ""] : [s.slice(0, i), s.slice(i + 1)];
}
