// What is under the pointer, the same for all graphs: the crosshair's moment, the stretch that is
// dragged over, the graph that keys mean.

/** Shared by the graphs of one worksheet. Times are milliseconds, NaN where there is none. */
export class Cursor {
  /** Where the pointer is. */
  hover = $state(Number.NaN);
  drag = $state.raw<[number, number] | null>(null);
  /** Moments at which something was noted. */
  notes = $state.raw<readonly number[]>([]);
  /** The graph that keys are for. */
  active = $state(0);
}
