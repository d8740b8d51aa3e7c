// Typed parameters of a URL. A shape says which a view has; what is not in the URL, or makes no
// sense there, has its default, so that every URL is a state and an old link never breaks a
// page.

export interface Param<T> {
  /** The value of what the URL has under the name; [] when it has none. Never fails. */
  parse(values: string[]): T;
  /** What to write; [] for the default. */
  print(value: T): string[];
}

export type Shape = Record<string, Param<never> | Param<unknown>>;
export type State<S> = { [K in keyof S]: S[K] extends Param<infer T> ? T : never };

/** Any text. */
export function text(otherwise = ""): Param<string> {
  return { parse: (v) => v[0] ?? otherwise, print: (v) => (v === otherwise ? [] : [v]) };
}

/** A list of texts, in order, written as one parameter each. */
export function texts(): Param<string[]> {
  return { parse: (v) => v, print: (v) => v };
}

/** One of a few words. */
export function word<W extends string>(words: readonly W[], otherwise: W): Param<W> {
  return {
    parse: (v) => words.find((w) => w === v[0]) ?? otherwise,
    print: (v) => (v === otherwise ? [] : [v]),
  };
}

/** A finite number. */
export function number(otherwise: number): Param<number> {
  return {
    parse: (v) =>
      v[0] !== undefined && v[0].trim() !== "" && Number.isFinite(Number(v[0]))
        ? Number(v[0])
        : otherwise,
    print: (v) => (v === otherwise ? [] : [String(v)]),
  };
}

/** True when it is there, whatever it says but 0. */
export function flag(): Param<boolean> {
  return { parse: (v) => v.length > 0 && v[0] !== "0", print: (v) => (v ? ["1"] : []) };
}

/** The state that the parameters give. */
export function parse<S extends Shape>(shape: S, params: URLSearchParams): State<S> {
  const out: Record<string, unknown> = {};
  for (const [name, p] of Object.entries(shape))
    out[name] = (p as Param<unknown>).parse(params.getAll(name));
  return out as State<S>;
}

/** The parameters of a state, in the order of the shape, defaults left out. */
export function print<S extends Shape>(shape: S, state: State<S>): [string, string][] {
  const out: [string, string][] = [];
  for (const [name, p] of Object.entries(shape)) {
    for (const v of (p as Param<unknown>).print(state[name])) out.push([name, v]);
  }
  return out;
}
