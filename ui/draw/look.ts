// The colours that a canvas draws with: those of the page's theme.

/** Colours as CSS has them. */
export interface Look {
  text: string;
  dim: string;
  grid: string;
  axis: string;
  ground: string;
  accent: string;
  /** Of losses and of what is cut off. */
  hot: string;
  /** The eight of Okabe and Ito, for the indices that data/colour returns. */
  series: readonly string[];
  /** Of rows without a colour of their own. */
  other: string;
}

/** The look of an element: what the custom properties of the theme say there. */
export function lookOf(element: Element): Look {
  const style = getComputedStyle(element);
  const of = (name: string): string => style.getPropertyValue(name).trim() || "#808080";
  return {
    text: of("--text"),
    dim: of("--dim"),
    grid: of("--line"),
    axis: of("--line-strong"),
    ground: of("--ground"),
    accent: of("--link"),
    hot: of("--hot"),
    series: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => of(`--c${i}`)),
    other: of("--line-strong"),
  };
}

/** The colour of a place: one of the eight, or that of rows without one. */
export function colourOf(look: Look, place: number): string {
  return look.series[place] ?? look.other;
}
