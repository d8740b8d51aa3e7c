// The newest stretch of a query: an answer that grows at its end as ticks come in, and forgets at
// its beginning.

import { type Answer, type Column, type Deviants, deviantsOf, idOf, type Series } from "./columns";
import { type Dist, lines, merge } from "./dist";

/** Milliseconds from one tick of the live rows to the next, whatever the step of a dataset. */
const each = 1000;

interface Row {
  key: string[];
  id: string;
  values: Float64Array;
  min: Float64Array;
  max: Float64Array;
  /** The time in the newest cell in which the row was there; of a level, of planned length. */
  weight: number;
  /** Of a kind dist: the distribution of each slot. */
  dists: (Dist | null)[] | null;
}

/**
 * A window of a fixed number of cells that follows the time. A cell may be longer than a tick: then
 * it is the mean of its ticks, as the server makes it - of an amount, all that came to pass by the
 * time measured in the cell; of a level, the mean over the ticks where the row was there.
 */
export class Live {
  readonly step: number;
  readonly window: number;
  private readonly sparse: boolean;
  private readonly capacity: number;
  private start: number; // of slot 0
  private used = 0; // slots in use; the newest window of them is what is shown
  private readonly elapsed: Float64Array;
  private rows = new Map<string, Row>();
  private rest: Float64Array;
  private restRows = 0;
  private beyond = 0; // rows that were not sent
  private head: Answer;
  private readonly banded: boolean;
  private newest: number; // the end of the newest tick that is in
  private deviants: Deviants; // as of the newest scores
  private compared = 0; // when the server made them; 0: they are of the past answer
  private gaps: { from: number; to: number; reason: string }[] = [];

  /**
   * Begins with an answer of the past, whose step stays. A cell of the answer that isn't over yet
   * goes on growing.
   */
  constructor(past: Answer, window = past.elapsed.length) {
    this.sparse = past.sparse && past.kind !== "dist"; // the mean of no values is none
    this.step = past.step;
    this.window = Math.max(2, window);
    this.capacity = this.window * 2;
    this.elapsed = new Float64Array(this.capacity);
    this.rest = new Float64Array(this.capacity).fill(NaN);
    this.head = past;
    this.deviants = deviantsOf(past);
    this.beyond = Math.max(0, past.rows - past.series.length);
    this.banded = past.step > 1000 || past.series.some((s) => s.min !== null);
    const from = Math.max(0, past.elapsed.length - this.window);
    this.start = past.start + from * past.step;
    this.used = past.elapsed.length - from;
    this.elapsed.set(past.elapsed.subarray(from));
    // The newest cell may still be filling: it holds what it says was measured, from its start.
    this.newest =
      this.used > 0
        ? this.end - this.step + Math.min(this.step, this.elapsed[this.used - 1]!)
        : this.start;
    if (past.rest) {
      this.rest.set(past.rest.values.subarray(from));
      this.restRows = past.rest.rows;
    }
    for (const s of past.series) {
      const row = this.row(s.key, s.id);
      row.values.set(s.values.subarray(from));
      row.min.set((s.min ?? s.values).subarray(from));
      row.max.set((s.max ?? s.values).subarray(from));
      for (let c = from; row.dists && c < past.elapsed.length; c++)
        row.dists[c - from] = s.dists?.[c] ?? null;
      const last = this.used - 1;
      row.weight = last >= 0 && !Number.isNaN(row.values[last]!) ? this.elapsed[last]! : 0;
    }
  }

  /** The end of the newest cell, in milliseconds. */
  get end(): number {
    return this.start + this.used * this.step;
  }

  /** The end of the newest tick that is in, in milliseconds. */
  get newestTick(): number {
    return this.newest;
  }

  private row(key: string[], id: string): Row {
    let row = this.rows.get(id);
    if (!row) {
      const empty = (): Float64Array => new Float64Array(this.capacity).fill(NaN);
      const dists =
        this.head.kind === "dist" ? new Array<Dist | null>(this.capacity).fill(null) : null;
      row = { key, id, values: empty(), min: empty(), max: empty(), weight: 0, dists };
      this.rows.set(id, row);
    }
    return row;
  }

  /**
   * Makes the cell exist that ends at or after the moment, and returns its slot; -1 when it is
   * older than the newest cell.
   */
  private slotFor(at: number): number {
    let slot = Math.ceil((at - this.start) / this.step - 1e-6) - 1;
    if (slot < this.used - 1) return -1;
    if (slot >= this.capacity) {
      const drop = slot + 1 - this.window;
      this.shift(drop);
      slot -= drop;
    }
    if (slot >= this.used) {
      this.used = slot + 1;
      for (const row of this.rows.values()) row.weight = 0;
    }
    return slot;
  }

  private shift(drop: number): void {
    const keep = Math.max(0, this.used - drop);
    const move = (a: Float64Array, empty: number): void => {
      if (keep > 0) a.copyWithin(0, drop, drop + keep);
      a.fill(empty, keep);
    };
    move(this.elapsed, 0);
    move(this.rest, NaN);
    for (const [id, row] of this.rows) {
      move(row.values, NaN);
      move(row.min, NaN);
      move(row.max, NaN);
      row.dists?.copyWithin(0, drop, drop + keep).fill(null, keep);
      if (row.values.subarray(0, keep).every(Number.isNaN)) this.rows.delete(id);
    }
    this.start += drop * this.step;
    this.used = keep;
    this.gaps = this.gaps.filter((g) => g.to > this.start);
  }

  /**
   * Appends one tick: an answer of one cell, whose planned end is at. A tick that is not newer than
   * what is there is dropped.
   */
  append(at: number, tick: Answer): boolean {
    const took = tick.elapsed[0] ?? 0;
    // Of a dataset of longer steps there is nothing in most seconds: only what should have come by
    // now is a gap.
    if (took === 0 && tick.step > each && at < this.newest + 1.5 * tick.step) return false;
    // Where the past ends and the live rows begin a tick may come twice.
    if (at < this.newest + Math.min(took, this.step) / 2) return false;
    const slot = this.slotFor(at);
    if (slot < 0) return false;
    this.newest = at;
    const before = this.elapsed[slot]!;
    const total = before + took;
    this.elapsed[slot] = total;
    const amount = tick.kind === "delta";
    const some = (tick.rest?.rows ?? 0) > 0 || tick.rows > tick.series.length;
    this.beyond = Math.max(0, tick.rows - tick.series.length);
    if (tick.unlike) {
      this.deviants = tick.unlike;
      this.compared = tick.compared ?? 0;
    }
    // An amount weighs by the time in which it came to pass; of a level each measurement weighs the
    // same.
    const weight = amount ? took : tick.step;
    const seen = new Set<string>();
    for (const s of tick.series) {
      const id = s.id || idOf(s.key);
      seen.add(id);
      const row = this.row(s.key, id);
      if (row.dists) this.mergeDist(row, slot, s.dists?.[0] ?? null);
      else if (took > 0) this.put(row, slot, s.values[0]!, weight, total, amount);
    }
    // Rows that differ by the server's newest scores are sent before all others.
    const newest = this.compared > 0 && tick.compared === this.compared;
    const all = newest && tick.series.some((s) => !this.deviants.has(s.id));
    for (const row of this.rows.values()) {
      if (seen.has(row.id)) continue;
      // Absent: beyond the rows that were sent, not there at all, or there with nothing to tell.
      const none = !some || (all && this.deviants.has(row.id));
      if (this.sparse && none && took > 0) this.put(row, slot, 0, weight, total, amount);
      else if (amount && total > 0 && row.weight > 0)
        row.values[slot] = (row.values[slot]! * before) / total;
    }
    if (tick.rest && took > 0) {
      const old = this.rest[slot]!;
      const v = tick.rest.values[0]!;
      if (!Number.isNaN(v))
        this.rest[slot] = Number.isNaN(old) ? v : (old * before + v * took) / total;
      this.restRows = tick.rest.rows;
    }
    return true;
  }

  /** Merges a distribution into a slot. Its mean is that of all values, not of the ticks. */
  private mergeDist(row: Row, slot: number, d: Dist | null): void {
    if (!row.dists || !d) return;
    const all = merge([row.dists[slot], d]);
    row.dists[slot] = all;
    const line = lines([all], 1);
    row.values[slot] = line.values[0]!;
    row.min[slot] = line.min[0]!;
    row.max[slot] = line.max[0]!;
  }

  private put(
    row: Row,
    slot: number,
    v: number,
    took: number,
    total: number,
    amount: boolean,
  ): void {
    if (Number.isNaN(v) || took <= 0) return;
    const old = row.values[slot]!;
    const w = row.weight;
    if (amount) {
      const had = w > 0 ? old * (total - took) : 0;
      row.values[slot] = (had + v * took) / total;
    } else {
      row.values[slot] = w > 0 ? (old * w + v * took) / (w + took) : v;
    }
    row.min[slot] = w > 0 ? Math.min(row.min[slot]!, v) : v;
    row.max[slot] = w > 0 ? Math.max(row.max[slot]!, v) : v;
    row.weight = w + took;
  }

  /** Says that nothing was measured between two moments; the cells are there, and empty. */
  gap(from: number, to: number, reason: string): void {
    if (!(to > from)) return;
    this.slotFor(to);
    this.gaps.push({ from, to, reason });
  }

  /** The gaps that are known with their reasons. */
  get missing(): readonly { from: number; to: number; reason: string }[] {
    return this.gaps;
  }

  /**
   * The window as an answer. Its arrays look into the buffer: they are good until the next tick.
   */
  answer(): Answer {
    const from = Math.max(0, this.used - this.window);
    const cut = (a: Float64Array): Column => a.subarray(from, this.used);
    const series: Series[] = [];
    for (const row of this.rows.values()) {
      const values = cut(row.values);
      const unlike = this.deviants.get(row.id);
      series.push({
        key: row.key,
        id: row.id,
        values,
        min: this.banded ? cut(row.min) : null,
        max: this.banded ? cut(row.max) : null,
        ...(row.dists ? { dists: row.dists.slice(from, this.used) } : {}),
        ...(unlike ? { unlike } : {}),
      });
    }
    return {
      query: this.head.query,
      kind: this.head.kind,
      unit: this.head.unit,
      sparse: this.sparse,
      start: this.start + from * this.step,
      step: this.step,
      elapsed: this.elapsed.subarray(from, this.used),
      by: this.head.by,
      series,
      rows: series.length + this.beyond,
      rest: this.restRows > 0 ? { rows: this.restRows, values: cut(this.rest) } : null,
      loss: this.head.loss,
      notes: this.head.notes,
    };
  }
}
