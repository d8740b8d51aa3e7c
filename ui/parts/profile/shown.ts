import type { State } from "../../state/param";
import type { shapes } from "../../state/place";

/**
 * Whether the calls are shown as they came: then what is narrow changes nothing in the picture, and
 * a sketch shows the same.
 */
export function asItCame(view: State<(typeof shapes)["profile"]>): boolean {
  return (
    view.order === "calls" &&
    !view.modules &&
    !view.busy &&
    view.only.length === 0 &&
    view.not.length === 0 &&
    view.f === ""
  );
}
