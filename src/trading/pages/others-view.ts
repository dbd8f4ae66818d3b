import { toPager } from '../../core/pages/address.js';
import { cityOf, isPlaced, type UnplacedMarket } from '../market/market.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { MARKETS_PATH, ticketAddress } from './addresses.js';
import { formatClimateDay } from './market-view.js';
import { kindNames } from './kind-words.js';
import { contains } from './overview-view.js';
import { formatCents } from './price-text.js';
import { sentence } from './signals-view.js';

export const OTHERS_PAGE = 200;

/**
 * The markets that settle by the venue's word alone, page by page.
 * @param cursor the ticker that the page before ended with; one that is gone begins anew
 */
export function toOthers({ data }: Snapshot, { q, cursor }: { q: string; cursor: string | undefined }) {
  const all = data.markets.filter((market): market is UnplacedMarket => !isPlaced(market));
  const from = cursor === undefined ? 0 : all.findIndex(({ ticker }) => ticker === cursor) + 1;
  const found = all.slice(from).filter((market) => isFound(market, q));
  const shown = found.slice(0, OTHERS_PAGE);
  return {
    rows: shown.map(toRow),
    pager: toPager(
      MARKETS_PATH,
      { kind: 'others', q },
      {
        cursor: from === 0 ? undefined : cursor,
        nextCursor: found.length > OTHERS_PAGE ? shown.at(-1)!.ticker : undefined,
      },
    ),
  };
}

const isFound = (market: UnplacedMarket, q: string): boolean =>
  contains([cityOf(market), market.title, market.label, market.ticker, kindNames[market.kind]], q);

/** What a market without a place is called: its label often says again what its title says. */
export const nameOf = ({ title, label }: Pick<UnplacedMarket, 'title' | 'label'>): string =>
  label === '' || title.includes(label) ? title : `${title} ${label}`;

function toRow(market: UnplacedMarket) {
  const { ticker, kind, date, problem, status } = market;
  const price = (side: 'yes' | 'no', ask: bigint | null) => ({
    name: side.toUpperCase(),
    ask: ask === null ? null : formatCents(ask),
    href: ask !== null && status === 'active' ? ticketAddress(ticker, { side, action: 'buy' }) : null,
  });
  return {
    ticker,
    href: ticketAddress(ticker),
    name: nameOf(market),
    kind: kindNames[kind],
    when: [cityOf(market), date === null ? null : formatClimateDay(date)].filter(Boolean).join(', '),
    isOpen: status === 'active',
    prices: [price('yes', market.yesAsk), price('no', market.noAsk)],
    last: market.lastPrice === null ? null : formatCents(market.lastPrice),
    problem: sentence(problem),
  };
}
