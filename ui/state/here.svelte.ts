// The place that is shown now, bound to the URL: what changes it changes the URL, and the browser's
// back and forward change it.

import type { State } from "./param";
import { type Place, parsePlace, place, printPlace, type shapes, type View } from "./place";
import type { Range } from "./time";

class Here {
  #place = $state.raw<Place>(parsePlace(typeof location === "undefined" ? "" : location.hash));
  /** The last place of each view, so that coming back to a view finds it as it was left. */
  #left = new Map<View, Place>();

  /** Reads the URL, and follows it. Returns a function that ends it. */
  begin(): () => void {
    const read = () => {
      const p = parsePlace(location.hash);
      if (printPlace(p) !== printPlace(this.#place)) this.#place = p;
    };
    read();
    addEventListener("popstate", read);
    addEventListener("hashchange", read);
    return () => {
      removeEventListener("popstate", read);
      removeEventListener("hashchange", read);
    };
  }

  get place(): Place {
    return this.#place;
  }

  get view(): View {
    return this.#place.view;
  }

  get time(): Range {
    return this.#place.time;
  }

  /** What the view keeps, when it is the one that is shown; else as the view was left. */
  of<V extends View>(view: V): State<(typeof shapes)[V]> {
    const p = this.#place.view === view ? this.#place : (this.#left.get(view) ?? place(view));
    return p.state as State<(typeof shapes)[V]>;
  }

  /**
   * Goes somewhere. A step that a person would want to go back from makes an entry of the history;
   * replace makes none.
   */
  go(to: Place, how: "push" | "replace" = "push"): void {
    const fragment = printPlace(to);
    if (to.view !== this.#place.view) this.#left.set(this.#place.view, this.#place);
    if (fragment !== printPlace(this.#place) || fragment !== location.hash) {
      if (how === "push") history.pushState(null, "", fragment);
      else history.replaceState(null, "", fragment);
    }
    this.#place = to;
  }

  /** Goes to a view as it was left, at the time that is shown now. */
  open(view: View): void {
    const left = this.#left.get(view) ?? place(view);
    this.go({ ...left, time: this.time } as Place);
  }

  /** Changes part of what the view keeps. */
  change<V extends View>(
    view: V,
    part: Partial<State<(typeof shapes)[V]>>,
    how: "push" | "replace" = "push",
  ): void {
    this.go(place(view, { ...this.of(view), ...part }, this.time), how);
  }

  /** Shows another time. */
  at(time: Range, how: "push" | "replace" = "push"): void {
    this.go({ ...this.#place, time } as Place, how);
  }
}

export const here = new Here();
