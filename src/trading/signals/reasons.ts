import type { DayForecast } from '../forecast/forecast.js';
import type { MarketData } from '../market/source.js';
import { formatDollars } from '../market/money.js';
import { bracketLabel } from '../market/brackets.js';
import type { SizedPurchase } from '../sizing/event.js';
import { TIME_TO_LIVE_MS } from '../snapshot/snapshot.js';
import type { EventCase } from './event-case.js';
import { DAY_CAP, EVENT_CAP, MARKET_CAP } from './limits.js';
import type { Signal } from './signal.js';
import type { EventSizes, Money } from './sizes.js';

export interface SignalParts {
  purchase: SizedPurchase;
  sizes: EventSizes;
  one: EventCase;
  day: DayForecast;
  money: Money;
  data: MarketData;
}

/** The signal with its reasons in words. */
export function toSignal(parts: SignalParts): Signal {
  const { one, data, sizes } = parts;
  const { ticker, ...purchase } = parts.purchase;
  const market = one.event.markets.find((market) => market.ticker === ticker)!;
  const lives = data.fetchedAt.getTime() + TIME_TO_LIVE_MS;
  const limitedBy = purchase.limitedBy === 'event' && sizes.isDayTighter ? 'day' : purchase.limitedBy;
  return {
    ...purchase,
    market,
    edge: purchase.probability - purchase.breakEven,
    worstCase: purchase.stake,
    limitedBy,
    reasons: [
      theForecast(purchase, bracketLabel(market.bracket), parts.day),
      thePrice(purchase),
      theSize(purchase, limitedBy, parts),
      one.gate.reason.replace(/^Open: (.)/, (_verdict, first: string) => first.toUpperCase()),
    ],
    expiresAt: new Date(Math.min(lives, market.closeTime.getTime())),
  };
}

type Purchase = Omit<SizedPurchase, 'ticker'>;

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
const points = (difference: number): string => `${(Math.abs(difference) * 100).toFixed(1)} points`;
const dollars = (amount: bigint): string => `$${formatDollars(amount).replace(/00$/, '')}`;

/** `71.3 ± 1.5 °F`: mean and standard deviation. */
const spread = (mean: number, deviation: number): string => `${mean.toFixed(1)} ± ${deviation.toFixed(1)} °F`;

function theForecast({ side, probability }: Purchase, label: string, day: DayForecast): string {
  const { membersF, modelRunAt, rawMeanF, rawDeviationF } = day;
  const bracket = `${side === 'yes' ? '' : 'not '}${label}`;
  return (
    `${percent(probability)} for ${bracket}: ${membersF.length} members of the run of ` +
    `${modelRunAt.toISOString().slice(0, 16)}Z expect ${spread(rawMeanF, rawDeviationF)}, ${theCorrection(day)}${soFar(day)}.`
  );
}

function soFar({ atLeastF, atMostF }: DayForecast): string {
  if (atLeastF !== null) return `; the day has reached ${atLeastF} °F for certain`;
  return atMostF === null ? '' : `; the day has been down to ${atMostF} °F for certain`;
}

function theCorrection({ fit, meanF, deviationF }: DayForecast): string {
  if (fit === null) return 'corrected by nothing';
  const whose = fit.stationId === null ? ' of all stations' : '';
  return `corrected by ${fit.n} ${fit.kind === 'hourly' ? 'hours' : 'days'}${whose} to ${spread(meanF, deviationF)}`;
}

function thePrice({ side, price, depth, probability, breakEven, isHedge }: Purchase): string {
  const edge = probability - breakEven;
  const asked = `${side.toUpperCase()} is asked at ${dollars(price)} (${depth} contracts); with the exact fee`;
  return isHedge
    ? `${asked} it costs ${points(edge)} more than it is worth by itself; it pays where the others lose.`
    : `${asked} it is worth buying from ${percent(breakEven)} on: an edge of ${points(edge)}.`;
}

function theSize(purchase: Purchase, limitedBy: Signal['limitedBy'], parts: SignalParts): string {
  const { fullKelly, contracts, limitPrice, stake } = purchase;
  const { sizes, money, one } = parts;
  const isHeld = one.event.markets.some(({ ticker }) => money.holdings.has(ticker));
  const held = isHeld ? ', given what is held of it,' : '';
  const limit = limitedBy === null ? '' : `, held down by ${theLimit[limitedBy]}`;
  return (
    `The best joint purchase of the event's brackets${held} puts ${percent(fullKelly)} of the bankroll here, of which a quarter ` +
    `is used${limit}: ${contracts} contracts up to ${dollars(limitPrice)} for ${dollars(stake)}. At worst the event's purchases ` +
    `lose ${dollars(sizes.worstCase)} together.`
  );
}

const capOf = (share: number): string => `${share * 100} % of the bankroll`;

const theLimit = {
  market: `the cap of ${capOf(MARKET_CAP)} for a market`,
  event: `the cap of ${capOf(EVENT_CAP)} for an event`,
  day: `the cap of ${capOf(DAY_CAP)} for all events of a day, of which those with more growth come first`,
  cash: 'the cash that is left',
  depth: 'what stands in the book',
} as const;
