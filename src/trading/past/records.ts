import { calibratedModel } from '../forecast/calibrated.js';
import type { FitBook } from '../forecast/fits.js';
import { readWeather } from '../forecast/simulated.js';
import { groupEvents } from '../markets/event.js';
import { readMarkets } from '../markets/simulated.js';
import type { Sources } from '../scores/queries.js';
import type { Climates } from '../scores/climate.js';
import { recordsDue, type NewRecord } from '../scores/records.js';
import type { SimulatedWorld } from '../simulation/world.js';
import type { Moment } from './moments.js';

/** What would have been written down at a moment of the past: by the code of the present, of what was known then. */
export function makeRecords(
  world: Pick<SimulatedWorld, 'seed' | 'weather'>,
  names: Sources,
  { at, days }: Moment,
  { fits, climates }: { fits: FitBook; climates: Climates },
): NewRecord[] {
  const data = readMarkets(world, days, at);
  const events = groupEvents(data.markets);
  const weather = readWeather(world, days, at);
  const forecasts = calibratedModel({ source: names.forecastSource, weather, events, fits, at });
  return recordsDue({ ...names, data, events, forecasts, at }, climates);
}
