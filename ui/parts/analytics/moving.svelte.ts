// A graph that is dragged to another place of the worksheet.

/** So close to the upper or lower edge of the window the page scrolls, in pixels. */
const edge = 100;

export class Moving {
  /** The graph that is dragged, and the one whose place it would take; -1: none. */
  from = $state(-1);
  to = $state(-1);

  /** Follows the pointer from the grip of a graph until it is released. Escape cancels. */
  begin(e: PointerEvent, index: number, done: (to: number) => void): void {
    const grip = e.currentTarget;
    if (e.button !== 0 || !(grip instanceof HTMLElement)) return;
    e.preventDefault();
    grip.setPointerCapture(e.pointerId);
    this.from = this.to = index;
    let [x, y] = [e.clientX, e.clientY];
    const look = () => {
      const graph = document.elementFromPoint(x, y)?.closest<HTMLElement>("[data-graph]");
      if (graph) this.to = Number(graph.dataset.graph);
    };
    const scroll = setInterval(() => {
      const by = y < edge ? -12 : y > innerHeight - edge ? 12 : 0;
      if (by === 0) return;
      scrollBy(0, by);
      look();
    }, 30);
    const stop = new AbortController();
    const end = (keep: boolean) => {
      clearInterval(scroll);
      stop.abort();
      const to = this.to;
      this.from = this.to = -1;
      if (keep && to !== index) done(to);
    };
    const move = (m: PointerEvent) => {
      [x, y] = [m.clientX, m.clientY];
      look();
    };
    const cancel = (k: KeyboardEvent) => {
      if (k.key !== "Escape") return;
      k.stopPropagation();
      end(false);
    };
    const { signal } = stop;
    grip.addEventListener("pointermove", move, { signal });
    grip.addEventListener("pointerup", () => end(true), { signal });
    grip.addEventListener("pointercancel", () => end(false), { signal });
    addEventListener("keydown", cancel, { signal, capture: true });
  }
}
