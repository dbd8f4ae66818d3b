import type { Micros } from '../trading/market/money.js';
import type { GateBook } from '../trading/signals/gate.js';
import type { Interval } from '../trading/scores/bootstrap.js';
import { gateKeys } from '../trading/scores/judge-gates.js';
import type { Moment, MomentSource } from './moment.js';
import { runBacktest } from './run.js';
import { collectForecasts, shuffle } from './shuffle.js';
import { dailyProfits, intervalOf, summarise, type BacktestSummary } from './statistics.js';

export interface BacktestOptions {
  cash: Micros;
  /** How often it is repeated with other events' forecasts. 0: not at all. */
  shuffles: number;
  /** Follows also what the gate would withhold. */
  isUngated: boolean;
  /** Called after each moment, of all rounds. */
  onMoment?: () => void;
}

/** Amounts are in dollars. */
export interface BacktestResult extends BacktestSummary {
  source: string;
  isUngated: boolean;
  /** The same with each event's prices set against the forecast of another one; null if that was not asked for. */
  shuffled: ShuffledSummary | null;
}

export interface ShuffledSummary {
  rounds: number;
  /** Mean profit of a round. */
  meanProfit: number;
  /** What a climate date brought on average over all rounds, with its 95 % interval; null for too few days to tell. */
  profitPerDay: (Interval & { confidence: number }) | null;
  /** The share of rounds that brought as much as the real forecasts, or more. */
  asGood: number;
  /** Where this is true, something is wrong with the prices, fills or fees: such forecasts know nothing. */
  isEarning: boolean;
}

export async function backtest(source: MomentSource, options: BacktestOptions): Promise<BacktestResult> {
  const { cash, shuffles, isUngated, onMoment } = options;
  const open = isUngated ? openGates : (moment: Moment) => moment;
  const rules = { cash, ...(onMoment && { onMoment }) };
  const summary = summarise(await runBacktest(source.moments(), { ...rules, change: open }));
  const rounds: number[][] = [];
  const forecasts = shuffles > 0 ? await collectForecasts(source.moments()) : undefined;
  for (let round = 0; forecasts && round < shuffles; round++) {
    const change = shuffle(forecasts, `round ${round}`);
    const trail = await runBacktest(source.moments(), { ...rules, change: (moment) => open(change(moment)) });
    rounds.push(dailyProfits(trail));
  }
  return {
    source: source.name,
    isUngated,
    ...summary,
    shuffled: rounds.length === 0 ? null : summariseRounds(rounds, summary.profit),
  };
}

/** Rounds share their days, and so their luck: what counts is how many days there are, not how many rounds. */
function summariseRounds(rounds: readonly (readonly number[])[], real: number): ShuffledSummary {
  const profits = rounds.map((daily) => daily.reduce((total, profit) => total + profit, 0));
  const average = (values: readonly number[]) => values.reduce((total, x) => total + x, 0) / values.length;
  const profitPerDay = intervalOf(rounds[0]!.map((_, day) => average(rounds.map((daily) => daily[day]!))));
  return {
    rounds: rounds.length,
    meanProfit: average(profits),
    profitPerDay,
    asGood: profits.filter((profit) => profit >= real).length / rounds.length,
    isEarning: profitPerDay !== null && profitPerDay.low > 0,
  };
}

function openGates(moment: Moment): Moment {
  const gates: GateBook = {
    madeAt: moment.at,
    gates: gateKeys().map((key) => ({
      ...key,
      isOpen: true,
      n: 0,
      difference: null,
      reason: 'Open: it was not asked in this run.',
    })),
  };
  return { ...moment, gates };
}
