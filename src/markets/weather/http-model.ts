import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { type Clock, DAY_MS, MINUTE_MS } from '../../core/time.js';
import { normalQuantile } from '../../core/statistics/distributions.js';
import { addDays, climateDayAt } from '../market/climate-day.js';
import { spanOf, targetKey, temperatureKinds } from '../market/market.js';
import { findPlace, indexAreas, isStation, stations } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import {
  MIN_MEMBERS,
  NoHistoryError,
  createObserver,
  type MinuteFeeds,
  type DayEnsemble,
  type ObservationPart,
  type WeatherSource,
} from './weather.js';
import { UnexpectedStatusError, createPoll, lastForecasts, placeOf, readJson } from './read-json.js';

/** Enough for 31 days with five runs of each maximum and minimum at 24 stations, and of each hour in 4 areas. */
const MAX_FORECASTS = 25_000;
const possibleF = z.number().min(-100).max(150);

/** One run for one maximum, minimum or hour, given as members or as a mean and a standard deviation. */
const forecastSchema = z
  .object({
    station: z.string().refine((id) => findPlace(id) !== undefined, 'is not a station or area with markets'),
    kind: z.enum(temperatureKinds).default('daily_maximum'),
    date: z.iso.date(),
    hour: z.int().min(0).max(23).optional(),
    modelRunAt: z.iso.datetime({ offset: true }),
    membersF: z.array(possibleF).min(MIN_MEMBERS).max(500).optional(),
    meanF: possibleF.optional(),
    standardDeviationF: z.number().min(0.1).max(40).optional(),
    /** Means at hours 0 to 23 of a climate day. */
    hourlyMeanF: z.array(possibleF).length(24).optional(),
    version: z.string().min(1).max(40).optional(),
  })
  .superRefine(({ station, kind, hour, membersF, meanF, standardDeviationF, hourlyMeanF }, context) => {
    const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    const isHour = kind === 'hourly';
    if (isHour && hourlyMeanF) refuse(['hourlyMeanF'], 'is only for days');
    const place = findPlace(station);
    if ((hour !== undefined) !== isHour)
      refuse(['hour'], isHour ? 'is missing: this is a forecast of an hour' : 'is only for hourly forecasts');
    if (place && isStation(place) === isHour)
      refuse(
        ['kind'],
        isHour
          ? 'is only for areas: no market is about an hour at a station'
          : 'must be hourly: an area has no days',
      );
    const numbers = [meanF, standardDeviationF].filter((value) => value !== undefined).length;
    if (numbers !== (membersF ? 0 : 2))
      refuse([], 'must have either membersF, or both meanF and standardDeviationF');
  });

const modelAnswerSchema = z.object({
  model: z.string().min(1).max(100).optional(),
  forecasts: z.array(forecastSchema).max(MAX_FORECASTS),
});

const MEMBERS = 31;

/** Normal quantiles at the midpoints of 31 equal parts, scaled to mean zero and a sample standard deviation of one. */
function standardMembers(): number[] {
  const half = Array.from({ length: (MEMBERS - 1) / 2 }, (_, i) => normalQuantile((i + 0.5) / MEMBERS));
  // Mirroring makes the mean exactly zero.
  const members = [...half, 0, ...half.toReversed().map((z) => -z)];
  const deviation = Math.sqrt(members.reduce((sum, z) => sum + z * z, 0) / (MEMBERS - 1));
  return members.map((z) => z / deviation);
}

/** How far the clock of the model's machine may be ahead. */
const CLOCK_TOLERANCE_MS = MINUTE_MS;
const LONGEST_LEAD_MS = 400 * DAY_MS;

/**
 * Requests forecasts from the operator's model. Days outside the requested range are dropped, so that a static file can
 * serve as the model; any other violation of the contract invalidates the whole response, and the error names its
 * location. A run made after its day has ended is not a forecast.
 * @param question climate days, both inclusive; `isHistory` asks for forecasts of past days
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
async function askModel(
  { url, clock }: { url: string; clock: Clock },
  { from, to, isHistory }: { from: string; to: string; isHistory: boolean },
  signal: AbortSignal,
): Promise<{ model: string | undefined; runs: DayEnsemble[] }> {
  const address = addressOf(url);
  address.searchParams.set('stations', stations.map(({ id }) => id).join(','));
  address.searchParams.set('areas', indexAreas.map(({ id }) => id).join(','));
  address.searchParams.set('from', from);
  address.searchParams.set('to', to);
  if (isHistory) address.searchParams.set('history', 'true');
  const { model, forecasts } = await readJson({
    url: address.href,
    headers: credentialsOf(url),
    secrets: secretsOf(url),
    schema: modelAnswerSchema,
    signal,
  });
  const fetchedAt = new Date(clock.now());
  const refuse = (path: (string | number)[], what: string) =>
    new UnexpectedAnswerError(address.href.split('?')[0]!, `${placeOf(path)}: ${what}`);
  const seen = new Set<string>();
  const runs = forecasts.flatMap((forecast, i) => {
    const run = toRun(forecast, fetchedAt);
    const place = ['forecasts', i];
    if (Date.parse(forecast.modelRunAt) > fetchedAt.getTime() + CLOCK_TOLERANCE_MS)
      throw refuse([...place, 'modelRunAt'], 'is in the future');
    if (run.date < from || run.date > to) return [];
    if (Date.parse(run.date) - run.modelRunAt.getTime() > LONGEST_LEAD_MS)
      throw refuse([...place, 'modelRunAt'], `is more than 400 days before ${run.date}`);
    const key = `${targetKey(run)} ${run.modelRunAt.getTime()}`;
    if (seen.has(key)) throw refuse(place, `appears twice: the same ${keyFields(run)} and modelRunAt`);
    seen.add(key);
    const isForecast = run.modelRunAt < spanOf(findPlace(run.stationId)!, run).end;
    if (!isForecast && isHistory)
      throw refuse([...place, 'modelRunAt'], `is after the end of ${run.date}: that is not a forecast`);
    return isForecast ? [run] : [];
  });
  return { model, runs };
}

const keyFields = ({ kind }: DayEnsemble): string =>
  kind === 'hourly' ? 'area, date, hour' : 'station, kind, date';

function toRun(given: z.output<typeof forecastSchema>, fetchedAt: Date): DayEnsemble {
  const { station: stationId, kind, date, hour, modelRunAt, hourlyMeanF: curveF, version } = given;
  const { membersF, meanF, standardDeviationF } = given;
  return {
    kind,
    stationId,
    date,
    ...(hour === undefined ? {} : { hour }),
    // A clock that is slightly ahead must not produce a run from the future.
    modelRunAt: new Date(Math.min(Date.parse(modelRunAt), fetchedAt.getTime())),
    fetchedAt,
    membersF: membersF ?? standardMembers().map((z) => meanF! + standardDeviationF! * z),
    ...(curveF && { curveF }),
    ...(version !== undefined && { version }),
  };
}

/** Returns the URL without its user name and password, which are sent in a header that is never logged. */
function addressOf(url: string): URL {
  const address = new URL(url);
  address.username = '';
  address.password = '';
  address.hash = '';
  return address;
}

/** Shorter values occur in ordinary text, so hiding them would not protect anything. */
const SHORTEST_SECRET = 4;

/** Returns every secret part of the URL in every encoding, because models may repeat the request in their responses. */
function secretsOf(url: string): string[] {
  const { username, password, searchParams } = new URL(url);
  const [pair] = Object.values(credentialsOf(url)).map((header) => header.split(' ')[1]!);
  const own = [...searchParams.values(), username, password].flatMap((value) => [
    value,
    decode(value),
    encodeURIComponent(value),
    new URLSearchParams({ '': value }).toString().slice(1),
  ]);
  return [pair ?? '', ...own].filter(({ length }) => length >= SHORTEST_SECRET);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function credentialsOf(url: string): Record<string, string> {
  const { username, password } = new URL(url);
  if (username === '' && password === '') return {};
  const pair = `${decode(username)}:${decode(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

/** Minimum time between requests, which limits them to 288 a day, however often markets are read. */
const FORECASTS_EVERY_MS = 5 * MINUTE_MS;
/** HTTP statuses of a model without history: 404 Not Found, 410 Gone, 501 Not Implemented. */
const noHistoryStatuses = new Set([404, 410, 501]);

interface HttpModelOptions extends Pick<WorkContext, 'clock' | 'log'> {
  url: string;
  observations: readonly ObservationPart[];
  minutes?: MinuteFeeds | undefined;
}

/** The operator's own model; docs/examples/README.md has the contract. Forecasts do not depend on observations. */
export function createHttpModelSource(options: HttpModelOptions): WeatherSource {
  const { url, observations, minutes, clock, log } = options;
  let name: string | undefined;

  const pollForecasts = createPoll(clock, FORECASTS_EVERY_MS, async (signal) => {
    const { model, runs } = await askModel(
      { url, clock },
      { ...daysInView(clock), isHistory: false },
      signal,
    );
    if (model !== undefined && model !== name)
      log.info({ model, before: name }, 'the model of the forecasts has a new name');
    name = model ?? name;
    return runs;
  });
  const observer = createObserver(observations, { clock, log, minutes });

  return {
    name: 'http',
    freshMs: MINUTE_MS,
    async read(signal) {
      const [forecast] = await Promise.all([pollForecasts(signal), observer.read(signal)]);
      const ensembles = lastForecasts(forecast, { clock, log, what: 'forecasts' });
      return {
        fetchedAt: new Date(clock.now()),
        notes: observer.notes(),
        ensembles,
        observed: observer.observed(),
      };
    },
    observed: () => observer.observed(),
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

function daysInView(clock: Clock): { from: string; to: string } {
  const today = stations.map((station) => climateDayAt(station, new Date(clock.now())).date).toSorted();
  return { from: addDays(today[0]!, -1), to: addDays(today.at(-1)!, 1) };
}
