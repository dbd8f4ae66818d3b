import type { DayForecast } from '../forecast/forecast.js';
import { isCrossed, type OrderBook } from '../market/book.js';
import type { MarketEvent } from '../market/event.js';
import { spanOf, type Market } from '../market/market.js';
import type { MarketData } from '../market/source.js';
import type { Bracket } from '../market/brackets.js';
import { areOutcomesKnown, outcomeProbabilities, outcomesOf } from '../market/outcomes.js';
import { MAX_TRADING_AGE_MS } from '../snapshot/snapshot.js';
import { MAX_FORECAST_AGE_MS, MAX_OBSERVATION_AGE_MS, MAX_RUN_AGE_MS } from './limits.js';
import { feeRuleOf } from '../market/fee-rules.js';

interface Present {
  data: MarketData;
  at: Date;
}

/** Why nothing may be said about a whole event; undefined if something may. */
export function judgeDay(
  event: MarketEvent,
  day: DayForecast | undefined,
  { data, at }: Present,
): string | undefined {
  const age = at.getTime() - data.fetchedAt.getTime();
  if (age > MAX_TRADING_AGE_MS) return `the prices are ${Math.round(age / 1000)} s old`;
  if (!data.isTrading) return 'the exchange is not trading';
  const { markets } = event;
  const { start, end } = spanOf(event.station, event);
  if (at >= end) return event.kind === 'hourly' ? 'the hour is over' : 'the day is over';
  const brackets = markets.map(({ bracket }) => bracket);
  if (!areOutcomesKnown(brackets)) return 'the brackets of the event do not cover every degree once';
  if (day === undefined || day.fetchedAt > at || day.modelRunAt > at) return 'no forecast';
  const probabilities = markets.map(({ ticker }) => day.probabilities.get(ticker) ?? Number.NaN);
  return judgeProbabilities(brackets, probabilities) ?? judgeAge(day, start, at);
}

/** Of the outcomes they must sum to one. Between thresholds that holds unless a higher one is likelier than a lower. */
function judgeProbabilities(brackets: readonly Bracket[], probabilities: readonly number[]) {
  const total = outcomeProbabilities(outcomesOf(brackets), probabilities).reduce((sum, p) => sum + p, 0);
  return Math.abs(total - 1) < 1e-9
    ? undefined
    : 'the forecast has no probability for every bracket, with a sum of one';
}

function judgeAge({ modelRunAt, fetchedAt, observed }: DayForecast, start: Date, at: Date) {
  const hoursSince = (time: Date) => `${((at.getTime() - time.getTime()) / 3_600_000).toFixed(1)} h`;
  const isOlder = (time: Date, ms: number) => at.getTime() - time.getTime() > ms;
  if (isOlder(modelRunAt, MAX_RUN_AGE_MS)) return `the forecast's run is ${hoursSince(modelRunAt)} old`;
  if (isOlder(fetchedAt, MAX_FORECAST_AGE_MS)) return `the forecast was fetched ${hoursSince(fetchedAt)} ago`;
  if (!isOlder(start, MAX_OBSERVATION_AGE_MS)) return undefined;
  if (observed === null)
    return `the day began ${hoursSince(start)} ago and the station's reports are not known`;
  return isOlder(observed.observedAt, MAX_OBSERVATION_AGE_MS)
    ? `the station's last known report is ${hoursSince(observed.observedAt)} old`
    : undefined;
}

/** Why nothing may be said about a market; undefined if something may. */
export function judgeMarket(market: Market, { data, at }: Present): string | undefined {
  const { ticker, status, closeTime } = market;
  if (status !== 'active' || at >= closeTime) return 'the market is not open';
  if (!feeRuleOf(data, market)) return 'its fee is not known';
  const book = data.books.get(ticker);
  if (book === undefined) return 'its order book is not known';
  if (data.doubts?.has(ticker)) return 'its order book is in doubt';
  return judgeBook(book);
}

/** A price that nobody speaks against is no market's, and what is bought there could not be sold again. */
function judgeBook(book: OrderBook): string | undefined {
  if (book.yes.length === 0 && book.no.length === 0) return 'its order book is empty';
  if (book.yes.length === 0) return 'its order book has one side only: nobody bids for YES';
  if (book.no.length === 0) return 'its order book has one side only: nobody bids for NO';
  return isCrossed(book) ? 'its order book is crossed' : undefined;
}
