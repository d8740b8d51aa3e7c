// What a graph shows, and where values and moments lie on its canvas.

import type { Column } from "../data/columns";
import type { TimeMark } from "./axis";
import type { Surface } from "./surface";

/** One row to draw. */
export interface Line {
  values: Column;
  /**
   * Least and greatest within each cell; null where a cell is one measurement. Not drawn where rows
   * are stacked.
   */
  min: Column | null;
  max: Column | null;
  colour: string;
  /** One of many without a colour of its own: a hairline, behind the others. */
  faint: boolean;
  /** Unlike the others: thicker and above them, which are dimmed. */
  bold?: boolean;
  /**
   * Not a row itself but what of the whole is in no row: dashed; in a stack, what is below zero
   * takes no space.
   */
  dashed?: boolean;
}

/** The time that a picture shows, and the grid of what is measured. Times are milliseconds. */
export interface Frame {
  from: number;
  to: number;
  /** The grid: cell c covers start+c*step to start+(c+1)*step. */
  start: number;
  step: number;
  /** Milliseconds measured in each cell: 0 is drawn as a gap of all rows. */
  elapsed: ArrayLike<number>;
  /** Marks of the time. */
  times: readonly TimeMark[];
  /** More is being asked for: time outside of the grid is not known yet, and is no gap. */
  pending: boolean;
}

/** Rows at an earlier time, on the grid of the graph. */
export interface Earlier {
  lines: readonly { values: Column; colour: string }[];
  /** Milliseconds measured then: 0 is marked as not recorded. */
  elapsed: ArrayLike<number>;
}

/** All that a graph shows. */
export interface Scene extends Frame {
  /** The most important first; stacked: the lowest first. */
  lines: readonly Line[];
  stacked: boolean;
  /**
   * The greatest of the whole within each cell, over a stack; null where a cell is one measurement.
   */
  whole: Column | null;
  /** The same rows at an earlier time, faint. */
  earlier?: Earlier | null;
  /** The values at the lower and upper edge. What is above is cut, and marked. */
  low: number;
  high: number;
  /** Marks of the values. */
  values: readonly number[];
  labels: readonly string[];
  /** The unit of the labels. */
  unit: string;
  /** Moments at which events were lost. */
  losses: readonly number[];
}

/** Where in the canvas the rows are drawn, in device pixels. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The plot of a surface: the values' labels have `gutter` CSS pixels on the left. */
export function plotOf(s: Surface, gutter: number): Box {
  const left = Math.round(gutter * s.dpr);
  const top = Math.round(6 * s.dpr);
  return {
    left,
    top,
    width: Math.max(1, s.width - left),
    height: Math.max(1, s.height - top - Math.round(s.dpr)),
  };
}

/** Where values and moments lie on the plot. */
export class Places {
  readonly kx: number;
  readonly ky: number;
  constructor(
    readonly box: Box,
    readonly scene: Pick<Scene, "from" | "to" | "low" | "high" | "start" | "step">,
  ) {
    this.kx = box.width / Math.max(1e-9, scene.to - scene.from);
    this.ky = box.height / Math.max(Number.MIN_VALUE, scene.high - scene.low);
  }
  x(ms: number): number {
    return this.box.left + (ms - this.scene.from) * this.kx;
  }
  y(v: number): number {
    return this.box.top + this.box.height - (v - this.scene.low) * this.ky;
  }
  ms(x: number): number {
    return this.scene.from + (x - this.box.left) / this.kx;
  }
}

/**
 * Cells narrower than this many device pixels are joined by slopes, wider ones are drawn as the
 * steps that they are.
 */
export const stairs = 4;
