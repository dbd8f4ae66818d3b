import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { addDays } from '../market/calendar.js';
import { climateDayAt } from '../market/climate-day.js';
import { stations } from '../market/stations.js';
import { NoHistoryError, type WeatherSource } from './forecast.js';
import { askModel } from './model-client.js';
import { createObserver, type ObservationPart } from './observations.js';
import { createPoll } from './poll.js';
import { UnexpectedStatusError } from './read-json.js';

/** However often markets are read, the model has its peace: 288 questions a day. */
const FORECASTS_EVERY_MS = 5 * 60_000;
/** Forecasts are used on for as long while the model does not answer. */
const FORECASTS_LAST_MS = 3 * 60 * 60_000;
/** Not found, gone, not implemented: it keeps no past. */
const noHistoryStatuses = new Set([404, 410, 501]);

export interface HttpModelOptions {
  /** May have a name, a password and a query of its own. */
  url: string;
  /** What was measured in the world that the markets are about. */
  observations: readonly ObservationPart[];
  clock: Clock;
  log: Logger;
}

/**
 * A model of the operator's own, asked over HTTP; docs/examples/README.md has the contract. Without observations its
 * forecasts are as good as before.
 */
export function createHttpModelSource({ url, observations, clock, log }: HttpModelOptions): WeatherSource {
  const told = { model: undefined as string | undefined, problem: undefined as unknown };

  const pollForecasts = createPoll(clock, FORECASTS_EVERY_MS, async (signal) => {
    const { model, runs } = await askModel(
      { url, clock },
      { ...daysInView(clock), isHistory: false },
      signal,
    );
    if (model !== undefined && model !== told.model)
      log.info({ model, before: told.model }, 'forecasts come from a model of this name');
    told.model = model ?? told.model;
    return { runs, readAt: clock.now() };
  });
  const observe = createObserver(observations, { clock, log });

  return {
    name: 'http',
    freshMs: 60_000,
    async read(signal) {
      const [forecast, observed] = await Promise.all([pollForecasts(signal), observe(signal)]);
      const { value, problem } = forecast;
      const isUsable = value && clock.now() - value.readAt < FORECASTS_LAST_MS;
      if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
      // Once, not with every read until the next question.
      if (problem !== undefined && problem !== told.problem)
        log.warn({ err: problem }, 'no new forecasts: the last ones are kept');
      told.problem = problem;
      return { fetchedAt: new Date(clock.now()), ensembles: value.runs, observed };
    },
    history: {
      async readRuns(range, signal) {
        try {
          return (await askModel({ url, clock }, { ...range, isHistory: true }, signal)).runs;
        } catch (error) {
          if (error instanceof UnexpectedStatusError && noHistoryStatuses.has(error.status))
            throw new NoHistoryError(
              `the model at MODEL_URL keeps no past forecasts: it answers ${error.status} to history=true`,
              { cause: error },
            );
          throw error;
        }
      },
    },
  };
}

/** From yesterday, whose markets may not be settled yet, to tomorrow, whose markets are open: at whichever station. */
function daysInView(clock: Clock): { from: string; to: string } {
  const today = stations.map((station) => climateDayAt(station, new Date(clock.now())).date).toSorted();
  return { from: addDays(today[0]!, -1), to: addDays(today.at(-1)!, 1) };
}
