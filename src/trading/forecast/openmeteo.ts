import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import type { WeatherSource } from './forecast.js';
import { createObserver, type ObservationPart } from './observations.js';
import { readEnsembles } from './open-meteo-ensembles.js';
import { readPreviousRuns } from './open-meteo-history.js';
import { createPoll } from './poll.js';

/**
 * The model runs four times a day: asking more often brings little. 24 questions a day count as about 2,100 of the 10,000 that are
 * free, one as 88 of 600 a minute; while the service fails up to 96 questions as 8,400.
 */
const ENSEMBLES_EVERY_MS = 60 * 60_000;
/** Ensembles are used on for as long while the service fails: until about the next run they are still the newest. */
const ENSEMBLES_LAST_MS = 3 * 60 * 60_000;

export interface OpenMeteoOptions {
  /** Of the ensembles. */
  baseUrl: string;
  /** Of the archive of earlier runs. */
  historyBaseUrl: string;
  /** What was measured in the world that the markets are about. */
  observations: readonly ObservationPart[];
  clock: Clock;
  log: Logger;
}

/**
 * The real weather: ensembles from Open-Meteo beside what was observed, each at its own pace. Without observations the ensembles
 * are as good as before, so a service that fails to observe takes nothing away.
 */
export function createOpenMeteoSource(options: OpenMeteoOptions): WeatherSource {
  const { baseUrl, historyBaseUrl, observations, clock, log } = options;
  const pollEnsembles = createPoll(clock, ENSEMBLES_EVERY_MS, async (signal) => {
    const ensembles = await readEnsembles({ baseUrl, clock }, signal);
    return { ensembles, readAt: clock.now() };
  });
  const observe = createObserver(observations, { clock, log });
  let told: unknown;

  return {
    name: 'openmeteo',
    freshMs: 60_000,
    async read(signal) {
      const [forecast, observed] = await Promise.all([pollEnsembles(signal), observe(signal)]);
      const { value, problem } = forecast;
      const isUsable = value && clock.now() - value.readAt < ENSEMBLES_LAST_MS;
      if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
      if (problem !== undefined && problem !== told)
        log.warn({ err: problem }, 'no new ensembles: the last ones are kept');
      told = problem;
      return { fetchedAt: new Date(clock.now()), ensembles: value.ensembles, observed };
    },
    history: {
      readRuns: (range, signal) => readPreviousRuns({ baseUrl: historyBaseUrl, clock }, range, signal),
    },
  };
}
