import { forecastOf, type DayForecast } from '../forecast/forecast.js';
import type { MarketEvent } from '../market/event.js';
import { spanOf, targetOf } from '../market/market.js';
import { gateAt, type Gate } from './gate.js';
import { judgeDay, judgeMarket } from './judge.js';
import type { SignalInput } from './signals.js';

const HOUR_MS = 60 * 60 * 1000;

/** An event with everything that speaks for or against buying something of it, before anything is sized. */
export interface EventCase {
  event: MarketEvent;
  day: DayForecast | undefined;
  gate: Gate;
  /** Why nothing may be sized: of the whole event, or by ticker of a market. */
  problem: string | undefined;
  problems: ReadonlyMap<string, string>;
  /** Why what is sized is no signal all the same; undefined where it is one. */
  withheld: string | undefined;
}

export function lookAtEvent(event: MarketEvent, input: SignalInput): EventCase {
  const { markets } = event;
  const day = forecastOf(input.forecasts, event);
  const { end } = spanOf(event.station, event);
  const hoursToEnd = (end.getTime() - input.at.getTime()) / HOUR_MS;
  const gate = gateAt(input.gates, targetOf(event), { hoursToEnd, at: input.at });
  const problem =
    judgeDay(event, day, input) ??
    (input.account && input.account.cash <= 0n ? 'there is no cash to buy with' : undefined);
  const problems = new Map<string, string>();
  for (const market of markets) {
    const reason = problem ?? judgeMarket(market, input);
    if (reason !== undefined) problems.set(market.ticker, reason);
  }
  return { event, day, gate, problem, problems, withheld: day && withheldBecause(day, gate) };
}

/** A forecast has to have earned it, and to be of the kind that has. */
function withheldBecause({ isCalibrated, fallback }: DayForecast, gate: Gate): string | undefined {
  const because = [
    gate.isOpen ? undefined : asClause(gate.reason),
    isCalibrated
      ? undefined
      : `the forecast is not calibrated${fallback === null ? '' : ` (${asClause(fallback)})`}`,
  ].filter((reason) => reason !== undefined);
  return because.length === 0 ? undefined : `withheld: ${because.join('; ')}`;
}

/** A sentence as a part of another one, without the verdict that it begins with. What begins with an abbreviation keeps its capitals. */
function asClause(said: string): string {
  const sentence = said.replace(/^(?:Open|Shut): /, '');
  const begun = /^[A-Z](?![A-Z])/.test(sentence) ? sentence[0]!.toLowerCase() + sentence.slice(1) : sentence;
  return begun.replace(/\.$/, '');
}
