import { calibratedModel } from '../forecast/calibrated.js';
import type { FitBook } from '../forecast/fits.js';
import { readWeatherOf } from '../forecast/simulated.js';
import { groupEvents } from '../market/event.js';
import { readMarketsOf } from '../venue/simulated.js';
import type { Sources } from '../scores/queries.js';
import type { Climates } from '../scores/climate.js';
import { recordsDue, type NewRecord } from '../scores/records.js';
import type { SimulatedWorld } from '../venue/simulation/world.js';
import type { Moment } from './moments.js';

/** What would have been written down at a moment of the past: by the code of the present, of what was known then. */
export function makeRecords(
  world: Pick<SimulatedWorld, 'seed' | 'weather'>,
  names: Sources,
  { at, subjects }: Moment,
  { fits, climates }: { fits: FitBook; climates: Climates },
): NewRecord[] {
  const data = readMarketsOf(world, subjects, at);
  const events = groupEvents(data.markets);
  const weather = readWeatherOf(world, subjects, at);
  const forecasts = calibratedModel({ source: names.forecastSource, weather, events, fits, at });
  return recordsDue({ ...names, data, events, forecasts, at }, climates);
}
