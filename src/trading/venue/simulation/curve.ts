/** A temperature at an hour of the climate day (local standard time), at which a rise or a fall ends. */
export interface Turn {
  hour: number;
  temperatureF: number;
}

/** The temperature at an hour: from turn to turn it rises or falls smoothly, and is nowhere beyond the two. */
export function temperatureAt(turns: readonly Turn[], hour: number): number {
  const next = turns.findIndex((turn) => turn.hour > hour);
  if (next < 0) return turns.at(-1)!.temperatureF;
  const [from, to] = [turns[Math.max(0, next - 1)]!, turns[next]!];
  const share = Math.max(0, hour - from.hour) / (to.hour - from.hour || 1);
  return from.temperatureF + (to.temperatureF - from.temperatureF) * ((1 - Math.cos(Math.PI * share)) / 2);
}

/** What a day has had until an hour: the turns that are behind it, and where it is. */
export function reachedAt(turns: readonly Turn[], hour: number): number[] {
  const behind = turns.filter((turn) => turn.hour <= hour).map(({ temperatureF }) => temperatureF);
  return [...behind, temperatureAt(turns, hour)];
}
