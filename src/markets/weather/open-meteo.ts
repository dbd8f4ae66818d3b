import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { addDays, climateDayAt, climateDayOf, clockAt } from '../market/climate-day.js';
import type { VenueNote } from '../market/source.js';
import { isStation } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import {
  createObserver,
  EARLIER_MS,
  MAIN_MODEL,
  meanAndVariance,
  type MinuteFeeds,
  type DayEnsemble,
  type ObservationPart,
  type WeatherSource,
} from './weather.js';
import { notesOfMissing, type PlaceForecasts } from './place-forecasts.js';
import { readPreviousRuns } from './open-meteo-history.js';
import {
  hourlyF,
  matchPlaces,
  placeFields,
  placeQuery,
  targetReader,
  targetsOn,
} from './open-meteo-places.js';
import { readOpenMeteo } from './open-meteo-request.js';
import { createPoll, lastForecasts, WeatherUnavailableError } from './read-json.js';
import type { Place } from '../market/place.js';

interface OnlineModel {
  /** As in `DayEnsemble`; omitted for the first model. */
  model?: string;
  /** `asked` is the model's name in forecast requests, `dataset` its name in the run metadata. */
  asked: string;
  dataset: string;
  /** Ensembles and single runs come from different hosts. */
  from: 'ensemble' | 'forecast';
  leastMembers: number;
  runMs: number;
  /** Shortest time that this model's runs have taken to become available after their start. */
  takesMs: number;
  everyMs: number;
}

/**
 * NOAA's GEFS at a quarter of a degree: a control run and 30 members, four runs a day, so polling more often than
 * hourly gains little. 24 requests a day count as about 2,100 of the 10,000 free calls, and one request as 88 of the
 * 600 a minute. While the service fails, up to 96 requests count as 8,400.
 */
const gefs: OnlineModel = {
  asked: 'gfs025',
  dataset: 'ncep_gefs025',
  from: 'ensemble',
  leastMembers: 20,
  runMs: 6 * HOUR_MS,
  takesMs: 3.5 * HOUR_MS,
  everyMs: HOUR_MS,
};

/**
 * ECMWF's ensemble of 51; NOAA's HRRR and NBM, which have a run each hour, although only every sixth HRRR run reaches
 * beyond 18 hours; and DWD's ICON. An ECMWF request counts as 144 calls and a request for any of the others as 29:
 * together 1,500 a day, or 920 while they fail.
 */
const furtherModels: readonly (OnlineModel & { model: string })[] = [
  {
    model: 'ecmwf',
    asked: 'ecmwf_ifs025',
    dataset: 'ecmwf_ifs025_ensemble',
    from: 'ensemble',
    leastMembers: 20,
    runMs: 6 * HOUR_MS,
    takesMs: 6 * HOUR_MS,
    everyMs: 4 * HOUR_MS,
  },
  ...['hrrr', 'nbm'].map((model) => ({
    model,
    asked: `ncep_${model}_conus`,
    dataset: `ncep_${model}_conus`,
    from: 'forecast' as const,
    leastMembers: 1,
    runMs: HOUR_MS,
    takesMs: 0.75 * HOUR_MS,
    everyMs: 3 * HOUR_MS,
  })),
  {
    model: 'icon',
    asked: 'icon_global',
    dataset: 'dwd_icon',
    from: 'forecast',
    leastMembers: 1,
    runMs: 6 * HOUR_MS,
    takesMs: 3.5 * HOUR_MS,
    everyMs: 4 * HOUR_MS,
  },
];

const locationSchema = z.looseObject({
  ...placeFields,
  hourly_units: z.looseObject({ temperature_2m: z.literal('°F') }),
  hourly: z.object({ time: z.array(z.int()) }).catchall(hourlyF.or(z.unknown().transform(() => null))),
});

const metadataSchema = z.looseObject({
  last_run_initialisation_time: z.int(),
});

interface Hosts extends Pick<WorkContext, 'clock' | 'log'> {
  baseUrls: Readonly<Record<OnlineModel['from'], string>>;
  apiKey: string | undefined;
}

/**
 * Requests all places from Open-Meteo in one call: each member's maximum and minimum over a station's climate days,
 * computed from its hourly values, and the hours of the index areas. A request counts as 28 places × 31 members ÷ 10 =
 * 87 calls, plus one for the run time.
 */
async function readEnsembles(model: OnlineModel, hosts: Hosts, signal: AbortSignal): Promise<Runs> {
  const { baseUrls, apiKey, clock, log } = hosts;
  const url = `${baseUrls[model.from]}/v1/${model.from}`;
  const locations = await readOpenMeteo({
    url,
    query: {
      ...placeQuery,
      hourly: 'temperature_2m',
      models: model.asked,
      past_days: '2',
      forecast_days: '3',
    },
    apiKey,
    schema: z.array(z.unknown()),
    signal,
  });
  const { matched, problems } = matchPlaces(url, locations, locationSchema);
  const fetchedAt = new Date(clock.now());
  // Read after the forecasts: a run that arrives in between makes the data look newer than it is, never older.
  const runTime = await readRunTime(model, hosts, fetchedAt, signal);
  const of = model.model === undefined ? {} : { model: model.model };
  const found = matched.map(([place, location]) => toRuns(model, place, location, fetchedAt));
  const [first] = found.flatMap(({ isBroken, problems: own }) => (isBroken ? own : []));
  if (first !== undefined && found.every(({ isBroken }) => isBroken))
    throw new UnexpectedAnswerError(url, first);
  problems.push(...found.flatMap((each) => each.problems));
  if (problems.length > 0)
    log.warn(
      { model: model.model ?? MAIN_MODEL, count: problems.length, problems: problems.slice(0, 10) },
      'parts of a model cannot be read and are left out; the others are used',
    );
  return {
    ensembles: found.flatMap(({ runs }) => runs.map((run) => ({ ...of, ...run, ...runTime, fetchedAt }))),
    notes: notesOfMissing(`${model.model ?? model.asked} in part`, problems),
  };
}

interface Runs {
  ensembles: readonly DayEnsemble[];
  /** Names what was left out. */
  notes: readonly VenueNote[];
}

/**
 * Returns the start of the run that the data comes from. If it is unknown, the first model assumes the latest run that
 * can be available, so that data is never dated too early, and says so.
 * @throws WeatherUnavailableError if a further model's is unknown
 */
async function readRunTime(
  { model, dataset, from, runMs: everyMs, takesMs }: OnlineModel,
  { baseUrls, apiKey }: Hosts,
  fetchedAt: Date,
  signal: AbortSignal,
): Promise<Pick<DayEnsemble, 'modelRunAt' | 'isRunUnknown'>> {
  const url = `${baseUrls[from]}/data/${dataset}/static/meta.json`;
  const asked = readOpenMeteo({ url, apiKey, schema: metadataSchema, signal });
  const metadata = await asked.catch(() => undefined);
  const runMs = (metadata?.last_run_initialisation_time ?? 0) * 1000;
  if (runMs > 0 && runMs <= fetchedAt.getTime()) return { modelRunAt: new Date(runMs) };
  if (model !== undefined) throw new WeatherUnavailableError(url, 'the time of its run is unknown');
  const latestMs = Math.floor((fetchedAt.getTime() - takesMs) / everyMs) * everyMs;
  return { modelRunAt: new Date(latestMs), isRunUnknown: true };
}

/**
 * Returns the targets from the members that have all of their hours. A target with too few such members is left out.
 * `isBroken` is true if a member is not a series with one value for each hour.
 */
function toRuns(wanted: OnlineModel, place: Place, { hourly }: z.output<typeof locationSchema>, at: Date) {
  const { model, leastMembers } = wanted;
  const { time, ...columns } = hourly as { time: number[] } & Record<string, (number | null)[] | null>;
  const asked = Object.entries(columns).filter(([name]) => /^temperature_2m(_member\d+)?$/.test(name));
  const broken = asked.filter(([, values]) => values?.length !== time.length).map(([name]) => name);
  const members = asked.flatMap(([, values]) => (values?.length === time.length ? [values] : []));
  const problems = broken.map((name) => `${place.id}: ${name} does not have a value for each hour`);
  if (members.length < leastMembers) {
    const few = `${place.id}: ${members.length} members instead of at least ${leastMembers}`;
    return { runs: [], problems: [...problems, few], isBroken: true };
  }
  const runs = datesInView(place, at).flatMap((date) => {
    // Only the first model continues a day that has already begun.
    const isWanted = isStation(place) && model === undefined;
    const curveF = isWanted ? meanCurve(place, date, { time, members, leastMembers }) : undefined;
    return targetsOn(place, date).flatMap((target) => {
      const membersF = members.map(targetReader(place, target, time)).filter((value) => value !== null);
      if (membersF.length > 0 && membersF.length < asked.length && target.kind !== 'daily_minimum')
        problems.push(
          `${place.id} ${date}${target.hour === undefined ? '' : ` ${target.hour}:00`}: ${asked.length - membersF.length} of ${asked.length} members lack hours`,
        );
      return membersF.length < leastMembers ? [] : [{ ...target, membersF, curveF }];
    });
  });
  return { runs, problems, isBroken: broken.length > 0 };
}

function meanCurve(
  place: Place,
  date: string,
  hourly: { time: readonly number[]; members: readonly (number | null)[][]; leastMembers: number },
): number[] | undefined {
  const { time, members, leastMembers } = hourly;
  const { start } = climateDayOf(place, date);
  const first = time.indexOf(start.getTime() / 1000);
  const hours = members
    .map((values) => values.slice(first, first + 24))
    .filter((values): values is number[] => values.length === 24 && !values.includes(null));
  if (first < 0 || hours.length < leastMembers) return undefined;
  return Array.from({ length: 24 }, (_, hour) => meanAndVariance(hours.map((values) => values[hour]!)).mean);
}

/** A station's days from yesterday, whose markets may not be settled yet, to tomorrow; an area's from today. */
function datesInView(place: Place, at: Date): string[] {
  const today = isStation(place) ? climateDayAt(place, at).date : clockAt(place, at).date;
  return (isStation(place) ? [-1, 0, 1] : [0, 1]).map((days) => addDays(today, days));
}

/** Pause after a failure, because an unanswered request may also count toward the limits. */
const FURTHER_PAUSE_MS = 6 * HOUR_MS;
/** Runs of further models stay in use this long, unless the service keeps returning an older run. */
const FURTHER_LAST_MS = 9 * HOUR_MS;
const OLDEST_RUN_MS = DAY_MS;

/** Polls a further model. Never rejects; logs a failure once. */
function createFurtherModel(model: OnlineModel & { model: string }, hosts: Hosts) {
  const { clock, log } = hosts;
  const missing = (why: string): Runs => ({ ensembles: [], notes: notesOfMissing(model.model, [why]) });
  const poll = createPoll(
    clock,
    model.everyMs,
    (signal) => readEnsembles(model, hosts, signal),
    FURTHER_PAUSE_MS,
  );
  return async (signal: AbortSignal) => {
    const { value: found, readMs, problem, isNews } = await poll(signal);
    if (isNews)
      log.warn({ err: problem, model: model.model }, 'a model could not be read; the others are used');
    const runAt = found?.ensembles[0]?.modelRunAt.getTime();
    if (found && runAt !== undefined && clock.now() - readMs < FURTHER_LAST_MS) {
      if (clock.now() - runAt < OLDEST_RUN_MS) return found;
      return missing(`its newest run is from ${new Date(runAt).toISOString()}`);
    }
    return missing(problem instanceof Error ? problem.message : 'it has no forecast for these days');
  };
}

/** Mixes use a run about half a day older than the newest, so runs more than a day old are not needed. */
const KEPT_RUNS_MS = DAY_MS;

/** Stores the first model's runs, so that the run from half a day earlier can be used alongside the newest. */
function createEarlierRuns(): (newest: readonly DayEnsemble[]) => DayEnsemble[] {
  const byRun = new Map<number, readonly DayEnsemble[]>();
  return (newest) => {
    const newestMs = newest[0]?.modelRunAt.getTime();
    if (newestMs === undefined) return [];
    if (!newest[0]!.isRunUnknown) byRun.set(newestMs, newest);
    for (const runMs of byRun.keys()) if (newestMs - runMs > KEPT_RUNS_MS) byRun.delete(runMs);
    const earlier = Math.max(...[...byRun.keys()].filter((runMs) => newestMs - runMs >= EARLIER_MS));
    return (byRun.get(earlier) ?? []).map((run) => ({ ...run, curveF: undefined }));
  };
}

interface OpenMeteoOptions extends Pick<WorkContext, 'clock' | 'log'> {
  baseUrl: string;
  historyBaseUrl: string;
  apiKey?: string | undefined;
  observations: readonly ObservationPart[];
  minutes?: MinuteFeeds | undefined;
  /** Models that other services provide station by station. */
  byPlace?: readonly PlaceForecasts[];
}

/** Reads Open-Meteo models and observations, each polled at its own pace. The first model works without the others. */
export function createOpenMeteoSource(options: OpenMeteoOptions): WeatherSource {
  const { baseUrl, historyBaseUrl, apiKey, observations, minutes, byPlace = [], clock, log } = options;
  const hosts = { baseUrls: { ensemble: baseUrl, forecast: historyBaseUrl }, apiKey, clock, log };
  const pollEnsembles = createPoll(clock, gefs.everyMs, (signal) => readEnsembles(gefs, hosts, signal));
  const further = [
    ...furtherModels.map((model) => createFurtherModel(model, hosts)),
    ...byPlace.map(({ read }) => read),
  ];
  const earlierThan = createEarlierRuns();
  const observer = createObserver(observations, { clock, log, minutes });

  return {
    name: 'openmeteo',
    furtherModels: [...furtherModels, ...byPlace].map(({ model }) => model),
    freshMs: MINUTE_MS,
    async read(signal) {
      const [forecast, , ...others] = await Promise.all([
        pollEnsembles(signal),
        observer.read(signal),
        ...further.map((read) => read(signal)),
      ]);
      const { ensembles, notes } = lastForecasts(forecast, { clock, log, what: 'ensembles' });
      return {
        fetchedAt: new Date(clock.now()),
        notes: [...notes, ...others.flatMap((other) => other.notes), ...observer.notes()],
        ensembles: [...ensembles, ...earlierThan(ensembles), ...others.flatMap((other) => other.ensembles)],
        observed: observer.observed(),
      };
    },
    observed: () => observer.observed(),
    history: {
      readRuns: (range, signal) =>
        readPreviousRuns({ baseUrl: historyBaseUrl, apiKey, clock, log }, range, signal),
      byPlace: byPlace.flatMap((each) => each.history ?? []),
    },
  };
}
