import type { Logger } from 'pino';
import { z } from 'zod';
import type { Clock } from '../../clock.js';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';
import { climateDayAt, type ClimateDay } from '../settlement/climate-day.js';
import { stations, type Station } from '../settlement/stations.js';
import type { ObservedExtreme } from './forecast.js';
import { readMetar, toFahrenheit } from './metar.js';
import { readJson } from './read-json.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** After midnight the day before is still asked for: its last report comes late. */
const ASK_BACK_MS = 3 * HOUR_MS;
/** °C that the decoded value may be from the one in the report: it is rounded. More: one of them is wrong. */
const SAME_C = 1;
const possibleC = { lowest: -60, highest: 60 };
/** Failed or in doubt (MADIS). */
const badQuality = new Set(['X', 'Q', 'B']);
const USER_AGENT = 'gauge-weather-markets/1.0';

const observationsSchema = z.looseObject({
  features: z
    .array(
      z.looseObject({
        properties: z.looseObject({
          station: z.string().optional(),
          timestamp: z.iso.datetime({ offset: true }),
          rawMessage: z.string().max(2_000).nullish(),
          temperature: z
            .looseObject({
              value: z.number().nullable(),
              unitCode: z.literal('wmoUnit:degC'),
              qualityControl: z.string().nullish(),
            })
            .nullish(),
        }),
      }),
    )
    .max(1_000),
});

type Observation = z.output<typeof observationsSchema>['features'][number]['properties'];

interface ReaderOptions {
  baseUrl: string;
  clock: Clock;
  log: Logger;
}

/**
 * Reads the stations' own reports from the National Weather Service. What a station has reported stays known while the
 * next question about it fails; the reader rejects if all of them do.
 */
export function createObservationReader({ baseUrl, clock, log }: ReaderOptions) {
  let known: ObservedExtreme[] = [];

  async function readStation(station: Station, signal: AbortSignal): Promise<ObservedExtreme[]> {
    const now = clock.now();
    const since = climateDayAt(station, new Date(now - ASK_BACK_MS));
    const url = `${baseUrl}/stations/${station.id}/observations`;
    const { features } = await readJson({
      url: `${url}?start=${encodeURIComponent(since.start.toISOString())}&limit=500`,
      headers: { 'user-agent': USER_AGENT, accept: 'application/geo+json' },
      schema: observationsSchema,
      signal,
    });
    const reports = features.map(({ properties }) => properties);
    const other = reports.find(({ station: of }) => of !== undefined && !of.endsWith(`/${station.id}`));
    if (other) throw new UnexpectedAnswerError(url, `an observation of ${other.station}`);
    const today = climateDayAt(station, new Date(now));
    const days = since.date === today.date ? [today] : [since, today];
    return days.flatMap((day) => highestOf(station, day, reports, new Date(clock.now())) ?? []);
  }

  return async (signal: AbortSignal): Promise<readonly ObservedExtreme[]> => {
    const answers = await Promise.allSettled(stations.map((station) => readStation(station, signal)));
    const failed = answers.filter((answer) => answer.status === 'rejected');
    if (failed.length === answers.length) throw failed[0]!.reason;
    for (const { reason } of failed)
      log.warn({ err: reason as unknown }, 'a station has no new observations');
    const fresh = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    const isFresh = new Set(fresh.map(({ stationId, date }) => `${stationId} ${date}`));
    const oldest = new Date(clock.now() - 3 * DAY_MS).toISOString().slice(0, 10);
    const kept = known.filter(
      ({ stationId, date }) => !isFresh.has(`${stationId} ${date}`) && date >= oldest,
    );
    known = [...kept, ...fresh];
    return known;
  };
}

/** The highest temperature that reports made within the day cannot be wrong about; undefined if there is none. */
function highestOf(
  station: Station,
  { date, start, end }: ClimateDay,
  reports: readonly Observation[],
  fetchedAt: Date,
): ObservedExtreme | undefined {
  let highestC = -Infinity;
  let observedAt = new Date(0);
  for (const report of reports) {
    const at = new Date(report.timestamp);
    if (at < start || at >= end || at > fetchedAt || !isTrustworthy(report)) continue;
    const { temperatureC, sixHourMaximumC } = readMetar(station.id, report.rawMessage ?? '', at);
    if (temperatureC === null || !agrees(report, temperatureC)) continue;
    // Six hours that began before the day did may have had their maximum in the day before.
    const isWithinDay = at.getTime() - 6 * HOUR_MS >= start.getTime();
    highestC = Math.max(highestC, temperatureC, (isWithinDay ? sixHourMaximumC : null) ?? -Infinity);
    if (at > observedAt) observedAt = at;
  }
  if (highestC < possibleC.lowest || highestC > possibleC.highest) return undefined;
  return {
    kind: 'daily_maximum',
    stationId: station.id,
    date,
    extremeF: toFahrenheit(highestC),
    observedAt,
    fetchedAt,
  };
}

const isTrustworthy = ({ temperature }: Observation): boolean =>
  !badQuality.has(temperature?.qualityControl ?? '');

const agrees = ({ temperature }: Observation, temperatureC: number): boolean =>
  typeof temperature?.value !== 'number' || Math.abs(temperature.value - temperatureC) <= SAME_C;
