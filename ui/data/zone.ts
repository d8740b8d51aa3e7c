// The zone in which moments are written and typed ones are read: that of the browser, or UTC.

/** Minutes that a clock is ahead of UTC at a moment. */
export type Zone = (ms: number) => number;

/** The zone of the browser. */
export const localZone: Zone = (ms) => -new Date(ms).getTimezoneOffset();

let chosen: Zone = localZone;

/** Sets the zone of all moments from now on. */
export function setZone(z: Zone): void {
  chosen = z;
}

/** The zone that is chosen. */
export const shownZone: Zone = (ms) => chosen(ms);

/** The moment at which a clock shows what UTC shows at `wall`. */
export function momentOf(wall: number, zone: Zone = shownZone): number {
  const ms = wall - zone(wall) * 60_000;
  return wall - zone(ms) * 60_000;
}
