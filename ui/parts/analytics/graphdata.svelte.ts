// What a graph shows, worked out of the answers of its sheet.

import { untrack } from "svelte";
import type { Stat } from "../../data/api";
import { addsUp, parse, print, stacks, wholeOf } from "../../data/drill";
import { statOf } from "../../data/sentence";
import { residual } from "../../data/series";
import { cellsOf } from "./cells";
import { caveats, lay } from "./earlier";
import { EarlierFeed } from "./earlier.svelte";
import { earlierName, type Options } from "./graph";
import { compose, excessNote, peaksOf } from "./scene";
import type { Sheet } from "./sheet.svelte";

/** What a graph is of, and how it is shown. */
interface Of {
  sentence: string;
  stats: readonly Stat[];
  options: Options;
  sheet: Sheet;
  host: string;
  /** Cells are longer than a second. */
  coarse: boolean;
  /** The stretch in sight, and the marks A and B; NaN: not set. */
  from: number;
  to: number;
  a: number;
  b: number;
  /** CSS pixels of the plot. */
  height: number;
}

/** Each is read when it is needed, so that only what depends on it is worked out anew. */
export type Inputs = { readonly [K in keyof Of]: () => Of[K] };

/** Made where a component begins: it has effects. */
export class GraphData {
  readonly #of: Inputs;
  readonly feed = new EarlierFeed();

  constructor(of: Inputs) {
    this.#of = of;
    $effect(() => {
      const a = this.answer;
      const by = this.earlierBy;
      const [sentence, host] = [of.sentence(), of.host()];
      if (by === 0) untrack(() => this.feed.clear());
      else if (a && a.elapsed.length > 0)
        untrack(() => this.feed.want(sentence, by, a, of.sheet().live, host));
    });
    $effect(() => () => this.feed.clear());
  }

  readonly parts = $derived.by(() => parse(this.#of.sentence()));
  readonly stat = $derived.by(() => this.#of.stats().find((s) => s.id === this.parts?.stat));
  readonly mayStack = $derived.by(() => this.parts !== null && stacks(this.parts, this.stat));
  /** A distribution is a heat map, unless lines are asked for. */
  readonly dist = $derived.by(() => (this.stat?.kind ?? this.data?.answer?.kind) === "dist");
  readonly mapped = $derived.by(() => this.dist && !this.#of.options().lines);
  /** Each row is a line of colours. */
  readonly heated = $derived.by(
    () => this.#of.options().heat && (this.parts?.by.length ?? 0) > 0 && !this.dist,
  );
  readonly stacked = $derived.by(() => this.#of.options().stack && this.mayStack && !this.heated);
  readonly whole = $derived.by(() => (this.parts ? wholeOf(this.parts, this.stat) : null));

  // The data of the sheet are made when they are wanted: looked up anew with each change of what is
  // wanted.
  readonly data = $derived.by(() => this.#of.sheet().data(this.#of.sentence()));
  readonly answer = $derived.by(() => this.data?.answer ?? null);
  readonly #left = $derived.by(() => {
    const whole = this.whole ? this.#of.sheet().data(this.whole.sentence)?.answer : null;
    return this.answer && whole?.series[0]
      ? residual(whole, whole.series[0].values, this.answer)
      : null;
  });
  /** Why the parts exceed the whole; "": they do not. */
  readonly excess = $derived.by(() =>
    this.#left && this.answer && this.whole
      ? excessNote(this.#left, this.answer, statOf(this.whole.sentence))
      : "",
  );

  /** Rows are selected or hidden. */
  readonly some = $derived.by(
    () => this.#of.options().selected.length + this.#of.options().hidden.length > 0,
  );
  // The map has the events of all rows, also of those that were not sent; where rows are chosen,
  // only theirs.
  readonly wholeMap = $derived.by(() =>
    this.mapped && !this.some && this.parts && this.parts.by.length > 0 ? this.#sum : undefined,
  );
  readonly mapAnswer = $derived.by(() =>
    this.some || this.parts?.by.length === 0 ? this.answer : (this.wholeMap?.answer ?? null),
  );
  readonly mapRows = $derived.by(() => {
    const series = this.mapAnswer?.series ?? [];
    if (!this.view || this.mapAnswer !== this.answer) return series.map((s) => s.dists ?? []);
    const ids = new Set(this.view.drawn.map((r) => r.id));
    return series.filter((s) => ids.has(s.id)).map((s) => s.dists ?? []);
  });

  /** The same statistic without fields. */
  readonly #sum = $derived.by(() =>
    this.parts ? this.#of.sheet().data(print({ ...this.parts, by: [] })) : undefined,
  );
  // Means of a stack hide what the whole came to for a second: that is asked for beside it.
  readonly #peaks = $derived.by(() => {
    const sum = this.stacked && this.#of.coarse() ? this.#sum?.answer : null;
    return this.answer && sum ? peaksOf(sum, this.answer) : null;
  });

  // The same rows at an earlier time. Maps and lines of colours have no place for them.
  readonly comparable = $derived.by(() => !this.mapped && !this.heated);
  readonly earlierBy = $derived.by(() => (this.comparable ? this.#of.options().earlier : 0));
  readonly earlierWords = $derived.by(() =>
    this.earlierBy > 0 ? earlierName(this.earlierBy) : "",
  );
  readonly #laid = $derived.by(() =>
    this.answer && this.earlierBy > 0 && this.feed.answer
      ? lay(this.answer, this.feed.answer, this.earlierBy)
      : null,
  );
  /** What must be known of the earlier time. */
  readonly earlierTexts = $derived.by(() => {
    if (!this.answer || this.earlierBy === 0) return [];
    if (this.feed.trouble) return [this.feed.trouble.message];
    if (!this.#laid) return [];
    return caveats(this.#laid, this.answer, this.earlierBy, this.cells, this.feed.clocks);
  });

  readonly cells = $derived.by(() => {
    const { from, to, a, b } = this.#of;
    return cellsOf(this.answer, from(), to(), a(), b());
  });
  readonly view = $derived.by(() => {
    const { answer, data } = this;
    if (!answer) return null;
    const sums = this.parts !== null && addsUp(this.parts, this.stat);
    const left = this.#left?.values ?? null;
    return compose(
      answer,
      data?.ranked ?? [],
      this.#of.options(),
      sums,
      this.stacked,
      left,
      this.cells,
      this.#of.height(),
      this.#peaks,
      data?.deviants,
      this.#laid,
    );
  });
}
