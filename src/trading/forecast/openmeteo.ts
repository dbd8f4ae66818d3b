import type { Logger } from 'pino';
import type { Clock } from '../../clock.js';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';
import type { WeatherSource } from './forecast.js';
import { createObservationReader } from './nws-observations.js';
import { readEnsembles } from './open-meteo-ensembles.js';
import { readPreviousRuns } from './open-meteo-history.js';
import { createPoll } from './poll.js';

/**
 * The model runs four times a day: asking more often brings nothing new. 48 questions a day count as about 1,100 of the
 * 10,000 that are free.
 */
const ENSEMBLES_EVERY_MS = 30 * 60_000;
/** Stations report once an hour, in between when the weather changes. */
const OBSERVATIONS_EVERY_MS = 5 * 60_000;
/** Ensembles are used on for as long while the service fails: until about the next run they are still the newest. */
const ENSEMBLES_LAST_MS = 3 * 60 * 60_000;

export interface OpenMeteoOptions {
  /** Of the ensembles. */
  baseUrl: string;
  /** Of the archive of earlier runs. */
  historyBaseUrl: string;
  nwsBaseUrl: string;
  clock: Clock;
  log: Logger;
}

/**
 * The real weather: ensembles from Open-Meteo, observations from the National Weather Service, each at its own pace.
 * Without observations the ensembles are as good as before, so a failing NWS takes nothing away.
 */
export function createOpenMeteoSource(options: OpenMeteoOptions): WeatherSource {
  const { baseUrl, historyBaseUrl, nwsBaseUrl, clock, log } = options;
  const pollEnsembles = createPoll(clock, ENSEMBLES_EVERY_MS, async (signal) => {
    const ensembles = await readEnsembles({ baseUrl, clock }, signal);
    return { ensembles, readAt: clock.now() };
  });
  const pollObservations = createPoll(
    clock,
    OBSERVATIONS_EVERY_MS,
    createObservationReader({ baseUrl: nwsBaseUrl, clock, log }),
  );
  const problems = { ensembles: undefined as unknown, observations: undefined as unknown };

  /** Each problem is told once, not with every read until the next question. */
  function tell(part: keyof typeof problems, problem: unknown): void {
    if (problem !== undefined && problem !== problems[part])
      log.warn({ err: problem }, `no new ${part}: the last ones are kept`);
    problems[part] = problem;
  }

  return {
    name: 'openmeteo',
    freshMs: 60_000,
    async read(signal) {
      const [forecast, observed] = await Promise.all([pollEnsembles(signal), pollObservations(signal)]);
      tell('observations', observed.problem);
      const { value, problem } = forecast;
      const isUsable = value && clock.now() - value.readAt < ENSEMBLES_LAST_MS;
      if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
      tell('ensembles', problem);
      return {
        fetchedAt: new Date(clock.now()),
        ensembles: value.ensembles,
        observed: observed.value ?? [],
      };
    },
    history: {
      readRuns: (range, signal) => readPreviousRuns({ baseUrl: historyBaseUrl, clock }, range, signal),
    },
  };
}
