import { formatAgo, roundToCent } from '../../core/pages/format.js';
import { forecastOf } from '../learning/forecast.js';
import { sumKnown } from '../ledger/valuation.js';
import { asksOf, bidsOf, emptyBook, sidePrice } from '../market/book.js';
import { valueOf } from '../market/contracts.js';
import { isPlaced } from '../market/market.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';
import type { Portfolio, ValuedPosition } from '../portfolio/portfolio.js';
import { ageOf, type Snapshot } from '../snapshot/snapshot.js';
import { isStale, type FreshnessInput } from './freshness.js';
import { isPassed } from './probabilities.js';

type Marks = FreshnessInput & { snapshot: Snapshot | undefined };

/**
 * The last price, held between bid and ask; before the first trade, the bid. `price` is null if the value has another
 * basis: a result, the cost for lack of a price, or the bids alone for YES that the measured temperature rules out.
 */
export function toMarketValue(
  position: Pick<ValuedPosition, 'ticker' | 'side' | 'contracts' | 'cost' | 'mark'>,
  snapshot: Snapshot | undefined,
) {
  const { ticker, side, contracts, cost, mark } = position;
  const market = snapshot?.markets.get(ticker);
  const known = { price: null, excludedByF: null };
  if (mark.valuation === 'expected' || mark.value === null) return { ...known, value: mark.value };
  if (market && isPlaced(market) && side === 'yes') {
    const { observed = null } = forecastOf(snapshot!.forecasts, market) ?? {};
    if (observed && isPassed(market.bracket, observed, market.kind))
      return { ...known, value: mark.value, excludedByF: observed.extremeF };
  }
  const book = (mark.valuation === 'book' && snapshot?.data.books.get(ticker)) || emptyBook;
  const [bid, ask] = [bidsOf(book, side)[0]?.price, asksOf(book, side)[0]?.price];
  const yes = market?.lastPrice ?? null;
  const last = yes === null ? bid : sidePrice(side, yes);
  if (last === undefined) return { ...known, value: cost };
  const price = bid !== undefined && last < bid ? bid : ask !== undefined && last > ask ? ask : last;
  return { ...known, value: valueOf(price, contracts), price };
}

export function toPortfolioView(portfolio: Portfolio, marks: Marks) {
  const { mode, positions, cash, cost, openedAt, deposits, transfers } = portfolio;
  const values = positions.map((position) => toMarketValue(position, marks.snapshot).value);
  const value = sumKnown(values);
  // Nothing can be sold after a market's close, so what is known of it counts.
  const sold = sumKnown(
    positions.map(({ mark }, i) =>
      mark.valuation === 'closed' || mark.valuation === 'not_listed' ? values[i]! : mark.value,
    ),
  );
  // Rounded once, so that the account's value is the sum of the amounts beside it.
  const total = value === null ? null : roundToCent(cash) + roundToCent(value);
  return {
    mode,
    isNew: portfolio.markets === 0 && portfolio.openOrderCount === 0,
    warning: positions.length > 0 ? warningOf(marks) : undefined,
    tiles: {
      ...portfolio,
      value,
      total,
      gain: total === null || openedAt === null ? null : total - deposits - transfers,
      profit: value === null ? null : value - cost,
      unrealised: sold === null ? null : sold - cost,
    },
    /** The value of the other positions counts as zero. */
    cutTo: portfolio.isCut ? positions.length : null,
  };
}

function warningOf({ snapshot, sources, refreshSeconds, now }: Marks): string | undefined {
  if (!snapshot) {
    const failing = sources.find(({ part, state }) => part === 'markets' && state !== 'waiting');
    const why = failing
      ? `The market data source (${failing.name}) is not responding.`
      : 'Market data is loading.';
    return `${why} Positions cannot be valued until it arrives.`;
  }
  const ageMs = ageOf(snapshot, now.getTime());
  if (!isStale(ageMs, refreshSeconds)) return undefined;
  const trading = ageMs > MAX_TRADING_AGE_MS ? ' Trading resumes with newer data.' : '';
  return `Values use market data from ${formatAgo(snapshot.asOf, now)}.${trading}`;
}
