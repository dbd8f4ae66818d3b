import type { TemperatureKind } from '../market/market.js';
import { stations } from '../market/stations.js';
import { leadingStations, type Selection } from '../venue/simulation/world.js';

/** A part of the past that is made up for by itself: one kind of temperature at some stations. */
export interface PastPart extends Selection {
  /** Of the time that it may take, see `createPace`. */
  share: number;
}

/** What forecasts are recorded and learned of. */
export const recordedKinds = ['daily_maximum', 'daily_minimum'] as const satisfies readonly TemperatureKind[];

const others = stations.filter((station) => !leadingStations.includes(station));

/** In the order in which they are made up for: what is looked at first comes at full speed, the others behind the service's back. */
export const pastParts: readonly PastPart[] = [
  { of: leadingStations, share: 1 },
  { of: others, share: 0.4 },
].flatMap(({ of, share }) => recordedKinds.map((kind) => ({ stations: of, kinds: [kind], share })));
