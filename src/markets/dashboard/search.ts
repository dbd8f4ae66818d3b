import { isUuid } from '../../core/http/request.js';
import { findPages, MAX_HITS, type FindForMember } from '../../dashboard/search/search.js';
import { cityOf } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { eventAddress, ticketAddress } from '../pages/addresses.js';
import type { TradingServices } from '../services/services.js';

const pages = [
  { href: '/dashboard/portfolio/orders', label: 'Orders', words: 'trades' },
  { href: '/dashboard/portfolio#settlements-title', label: 'Settlements' },
  { href: '/dashboard/portfolio/risk', label: 'Risk', words: 'limits kill switch' },
  { href: '/dashboard/scores/execution', label: 'Execution', words: 'fills slippage latency' },
];

/** Cities and open markets are in memory, so only order ids are looked up in the database. */
export function createMarketsFinder(services: Pick<TradingServices, 'snapshots' | 'orders'>): FindForMember {
  const { snapshots, orders } = services;
  return async (query, { orgId, marketAccess }) => {
    if (marketAccess === 'none') return [];
    const wanted = query.toLowerCase();
    const has = (text: string) => text.toLowerCase().includes(wanted);
    const cities = placesOf('daily_maximum').filter(({ id, city }) => has(city) || has(id));
    const markets = [...(snapshots.current?.markets.values() ?? [])].filter(
      ({ ticker, status }) => status === 'active' && has(ticker),
    );
    const order = isUuid(query) ? await orders.find(orgId, query) : undefined;
    return [
      findPages(query, pages),
      {
        label: 'Cities',
        hits: cities.slice(0, MAX_HITS).map(({ id, city }) => ({
          href: eventAddress({ station: id, kind: 'daily_maximum' }),
          name: city,
          note: id,
        })),
      },
      {
        label: 'Markets',
        hits: markets.slice(0, MAX_HITS).map((market) => ({
          href: ticketAddress(market.ticker),
          name: market.ticker,
          note: [cityOf(market), market.date].filter(Boolean).join(', '),
        })),
      },
      {
        label: 'Orders',
        hits: order
          ? [{ href: `/dashboard/portfolio/orders/${order.id}`, name: order.id, note: order.ticker }]
          : [],
      },
    ];
  };
}
