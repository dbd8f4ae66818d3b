import { DAY_MS, HOUR_MS } from '../../src/core/time.js';
import { noFits } from '../../src/markets/learning/fits.js';
import { createSimulatedWeatherSource, readWeatherOf } from '../../src/markets/weather/simulated.js';
import { groupEvents, type MarketEvent } from '../../src/markets/market/event.js';
import { WAIT_MS, type MarkableFill } from '../../src/markets/execution/marker.js';
import { findSeries, type Station } from '../../src/markets/market/stations.js';
import { recordsDue, type NewRecord } from '../../src/markets/scores/records.js';
import { noGates, LEAD_HOURS } from '../../src/markets/signals/signal.js';
import { finalTimeOf } from '../../src/markets/venue/simulated-event.js';
import { createSimulatedSource, readMarketsOf } from '../../src/markets/venue/simulated.js';
import { noticedBefore } from '../../src/markets/venue/simulation/crowd.js';
import { simulateWeather, type SimulatedWorld } from '../../src/markets/venue/simulation/weather.js';
import {
  dailySubject,
  leadingStations,
  stationDaysBetween,
  subjectsOf,
  type StationDay,
} from '../../src/markets/venue/simulation/world.js';
import type { Feed, PointInTime } from './feed.js';
import { createLookBack, type FillMark } from './look-back.js';
import { dailyKinds } from '../../src/markets/market/market.js';
import { learnPast } from '../../src/markets/past/learned-past.js';
import { judgeGates } from '../../src/markets/scores/gates.js';
import { scoreBrackets } from '../../src/markets/scores/score.js';
import type { JudgedRecord } from '../../src/markets/scores/queries.js';
import { calibratedModel } from '../../src/markets/learning/calibrated.js';

interface SimulationOptions {
  seed: string;
  /** Climate days to trade. */
  from: string;
  to: string;
  /** More stations take longer. Default: the leading ones. */
  stations?: readonly Station[] | undefined;
  /** Before the first purchase; older days are for training. Default: 45. */
  scoreDays?: number;
  onDay?: (done: number, total: number) => void;
}

/** With exactly the data that the world's sources would have published by then. */
export async function simulationFeed({
  seed,
  from,
  to,
  stations = leadingStations,
  scoreDays = 45,
  onDay,
}: SimulationOptions): Promise<Feed> {
  const afterwards = Date.parse(`${to}T00:00:00Z`) + 3 * DAY_MS;
  const world = {
    seed,
    weather: simulateWeather(seed),
    noticedAt: noticedBefore(new Date(from)),
    clock: { now: () => afterwards },
  };
  const { signal } = new AbortController();
  const selection = { stations, kinds: dailyKinds };
  const histories = {
    weather: createSimulatedWeatherSource(world, selection).history,
    markets: createSimulatedSource(world, selection).history,
  };
  const range = { from: new Date(daysBefore(from, scoreDays)), to: new Date(afterwards) };
  const training = await learnPast(histories, range, signal);
  const days = stationDaysBetween({ from: daysBefore(from, scoreDays), to }, stations);
  const records: JudgedRecord[] = [];
  const points: PointInTime[] = [];
  let learned = { day: '', fits: noFits, gates: noGates };
  let done = 0;
  for (const step of planOf(days, from)) {
    const at = new Date(step.atMs);
    const day = at.toISOString().slice(0, 10);
    if (day !== learned.day) {
      learned = { day, fits: await training.fitsAt(at), gates: judgeGates(records, at) };
      onDay?.(++done, days.length / stations.length + 2);
    }
    const data = readMarketsOf(world, subjectsOf(step.shown, dailyKinds), at);
    const events = groupEvents(data.markets);
    const due = events.filter((event) => step.due.some((each) => isOf(each, event)));
    const weather = readWeatherOf(world, subjectsOf(step.due, dailyKinds), at);
    const forecasts = calibratedModel({ source: 'simulated', weather, events: due, fits: learned.fits, at });
    const source = 'simulated';
    const known = { marketSource: source, forecastSource: source, data, events: due, forecasts, at };
    records.push(...recordsDue(known).map((record) => toJudged(world, step.due, record)));
    const traded = due.filter(({ date }) => date >= from);
    points.push({ at, data, events, due: traded, forecasts, gates: learned.gates });
  }
  return {
    name: `simulated world “${seed}”, ${from} to ${to}`,
    count: points.length,
    points: () => points,
    lookBack: (fills) => lookBackIn(world, fills),
  };
}

/** After a fill. Simulated books change at the same interval. */
const BOOKS_AT_MS = [0, 15_000, 30_000, 45_000, 60_000];

async function lookBackIn(
  world: Pick<SimulatedWorld, 'seed' | 'weather' | 'noticedAt'>,
  fills: readonly MarkableFill[],
): Promise<FillMark[]> {
  const { signal } = new AbortController();
  const marks: FillMark[] = [];
  for (const fill of fills) {
    const { ticker, at } = fill;
    const { kind, station } = findSeries(ticker.slice(0, ticker.indexOf('-')))!;
    let nowMs = 0;
    const clock = { now: () => nowMs };
    const source = createSimulatedSource({ ...world, clock }, { stations: [station], kinds: [kind] });
    const found = createLookBack([fill]);
    for (const laterMs of BOOKS_AT_MS) {
      nowMs = at.getTime() + laterMs;
      found.see(new Date(nowMs), await source.read(signal));
    }
    nowMs = at.getTime() + WAIT_MS;
    const prints = await source.readPrints!([ticker], at, signal);
    found.read({ tickers: [ticker], since: at, until: new Date(nowMs), prints });
    marks.push(...found.marks());
  }
  return marks;
}

const isOf = ({ station, day }: StationDay, event: MarketEvent): boolean =>
  station === event.station && day.date === event.date;

/** By the day's final report, as of the time when it became known. */
function toJudged({ weather }: SimulatedWorld, due: readonly StationDay[], record: NewRecord): JudgedRecord {
  const { station, day } = due.find(
    (each) => each.station.id === record.station && each.day.date === record.date,
  )!;
  const { kind, date, leadHours, method } = record;
  const outcome = weather.value(dailySubject(kind, { station, day }));
  const { advantage, worstAdvantage } = scoreBrackets(record, outcome);
  const key = { kind, station: station.id, date, leadHours, method };
  return { ...key, advantage, worstAdvantage, settledAt: finalTimeOf(day) };
}

const daysBefore = (date: string, days: number): string =>
  new Date(Date.parse(`${date}T00:00:00Z`) - days * DAY_MS).toISOString().slice(0, 10);

interface Step {
  atMs: number;
  due: StationDay[];
  /** Includes `due` and days with open positions, whose value and share of the daily cap must always be known. */
  shown: StationDay[];
}

/**
 * In order.
 * @param from first day to trade
 */
export function planOf(days: readonly StationDay[], from: string): Step[] {
  const due = new Map<number, StationDay[]>();
  for (const each of days) {
    for (const lead of LEAD_HOURS) {
      const atMs = each.day.end.getTime() - lead * HOUR_MS;
      due.set(atMs, [...(due.get(atMs) ?? []), each]);
    }
    const finalMs = finalTimeOf(each.day).getTime();
    due.set(finalMs, due.get(finalMs) ?? []);
  }
  return [...due]
    .sort(([a], [b]) => a - b)
    .map(([atMs, dueNow]) => {
      const mayBeHeld = days.filter((each) => each.day.date >= from && isOpenAt(each, atMs));
      return { atMs, due: dueNow, shown: [...new Set([...dueNow, ...mayBeHeld])] };
    });
}

const isOpenAt = ({ day }: StationDay, atMs: number): boolean =>
  atMs >= day.end.getTime() - LEAD_HOURS[0] * HOUR_MS && atMs <= finalTimeOf(day).getTime();
