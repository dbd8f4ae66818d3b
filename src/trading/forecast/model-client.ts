import type { Clock } from '../../core/clock.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { spanOf, targetKey } from '../market/market.js';
import { findPlace, indexAreas, stations } from '../market/stations.js';
import type { DayEnsemble } from './forecast.js';
import { modelAnswerSchema, type ModelForecast } from './http-model-schema.js';
import { normalMembers } from './normal-members.js';
import { placeOf, readJson } from './read-json.js';

/** How far ahead the clock of the model's machine may be. */
const CLOCK_TOLERANCE_MS = 60_000;
/** Nobody forecasts a day earlier than this before it. */
const LONGEST_LEAD_MS = 400 * 24 * 60 * 60_000;

/** The climate days that are asked for, both included. */
export interface ModelQuestion {
  from: string;
  to: string;
  /** What was forecast of days that are over. */
  isHistory: boolean;
}

export interface ModelRuns {
  model: string | undefined;
  runs: DayEnsemble[];
}

/**
 * Asks the operator's model. Days that were not asked for are left out, so that a file can answer as well; whatever else is not
 * as agreed fails the whole answer, with its place. A run that was made after its day has ended is no forecast.
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
export async function askModel(
  { url, clock }: { url: string; clock: Clock },
  { from, to, isHistory }: ModelQuestion,
  signal: AbortSignal,
): Promise<ModelRuns> {
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
    if (seen.has(key)) throw refuse(place, `is there twice: the same ${whatIsSame(run)} and modelRunAt`);
    seen.add(key);
    const isForecast = run.modelRunAt < spanOf(findPlace(run.stationId)!, run).end;
    if (!isForecast && isHistory)
      throw refuse([...place, 'modelRunAt'], `is after the end of ${run.date}: that is no forecast`);
    return isForecast ? [run] : [];
  });
  return { model, runs };
}

const whatIsSame = ({ kind }: DayEnsemble): string =>
  kind === 'hourly' ? 'area, date, hour' : 'station, kind, date';

function toRun(
  { station: stationId, kind, date, hour, modelRunAt, membersF, meanF, standardDeviationF }: ModelForecast,
  fetchedAt: Date,
): DayEnsemble {
  return {
    kind,
    stationId,
    date,
    ...(hour === undefined ? {} : { hour }),
    // A clock that is a little ahead makes no run that is not there yet.
    modelRunAt: new Date(Math.min(Date.parse(modelRunAt), fetchedAt.getTime())),
    fetchedAt,
    membersF: membersF ?? normalMembers(meanF!, standardDeviationF!),
  };
}

/** Without the name and password that may stand in it: they go into a header, where no log shows them. */
function addressOf(url: string): URL {
  const address = new URL(url);
  address.username = '';
  address.password = '';
  address.hash = '';
  return address;
}

/** Shorter ones are in every sentence, and keep nobody out. */
const SHORTEST_SECRET = 4;

/** Whatever of the URL is not for everybody, in each form: models say back what they were asked. */
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

/** A `%` that means itself stays. */
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
