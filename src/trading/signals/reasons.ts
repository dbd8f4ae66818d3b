import type { DayForecast } from '../forecast/forecast.js';
import type { MarketData } from '../markets/source.js';
import { formatDollars, type Micros } from '../money.js';
import { bracketLabel } from '../settlement/brackets.js';
import { TIME_TO_LIVE_MS } from '../snapshot.js';
import { KELLY_SHARE } from './limits.js';
import type { Candidate, Sized } from './purchase.js';
import type { Signal } from './signal.js';

export interface SizedSignal {
  candidate: Candidate;
  sized: Sized;
  day: DayForecast;
  data: MarketData;
  maxStake: Micros;
}

/** The signal with its reasons in words. */
export function toSignal(parts: SizedSignal): Signal {
  const { candidate, sized, data } = parts;
  const { market, side, price, depth, probability, fullKelly } = candidate;
  const lives = data.fetchedAt.getTime() + TIME_TO_LIVE_MS;
  return {
    market,
    side,
    price,
    depth,
    probability,
    breakEven: sized.breakEven,
    edge: probability - sized.breakEven,
    fullKelly,
    fractionalKelly: KELLY_SHARE * fullKelly,
    contracts: sized.contracts,
    limitPrice: sized.limitPrice,
    averagePrice: sized.averagePrice,
    fee: sized.fee,
    stake: sized.stake,
    expectedValue: sized.expectedValue,
    reasons: [theForecast(parts), theEdge(parts), theSize(parts), theMethod],
    expiresAt: new Date(Math.min(lives, market.closeTime.getTime())),
  };
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
const degrees = (temperatureF: number): string => `${temperatureF.toFixed(1)} °F`;

function theForecast({ candidate: { market, side, probability }, day }: SizedSignal): string {
  const { membersF, meanF, deviationF, modelRunAt, observed } = day;
  const bracket = `${side === 'yes' ? '' : 'not '}${bracketLabel(market.bracket)}`;
  const soFar = observed ? `, at least ${degrees(observed.maximumF)} as observed` : '';
  return (
    `${percent(probability)} for ${bracket}: ${membersF.length} members of the run of ` +
    `${modelRunAt.toISOString().slice(0, 16)}Z expect ${degrees(meanF)} ± ${deviationF.toFixed(1)}${soFar}.`
  );
}

function theEdge({ candidate, sized }: SizedSignal): string {
  const { side, price, depth, probability } = candidate;
  return (
    `${side.toUpperCase()} is asked at $${formatDollars(price)} (${depth} contracts); with the exact fee it is worth buying ` +
    `from ${percent(sized.breakEven)} on: an edge of ${percent(probability - sized.breakEven)}.`
  );
}

function theSize({ candidate, sized, maxStake }: SizedSignal): string {
  const { fullKelly } = candidate;
  const { contracts, limitPrice, stake } = sized;
  const capped = sized.isCapped ? `, held to $${formatDollars(maxStake)} by the caps` : '';
  return (
    `Kelly gives ${percent(fullKelly)} of the bankroll, a quarter of it is used${capped}: ${contracts} contracts ` +
    `up to $${formatDollars(limitPrice)} for $${formatDollars(stake)}, all of which can be lost.`
  );
}

const theMethod =
  'The forecast is the raw ensemble, not calibrated, and each market is sized for itself: see /scores for how it did.';
