import { expect, it } from 'vitest';
import type { ListedMarket } from '../../../src/markets/market/market.js';
import { nameMarket } from '../../../src/markets/market/market-name.js';
import { toMarketView } from '../../../src/markets/pages/labels.js';

it.each([
  {
    ticker: 'KXHIGHNY-26NOV21-B60.5',
    day: 'New York high, 21 Nov 2026',
    label: '60° to 61°',
    href: '/dashboard/markets?station=KNYC&date=2026-11-21',
  },
  {
    ticker: 'KXLOWTCHI-26SEP25-B58.5',
    day: 'Chicago low, 25 Sept 2026',
    label: '58° to 59°',
    href: '/dashboard/markets?station=KMDW&kind=daily_minimum&date=2026-09-25',
  },
  {
    ticker: 'KXTEMPMIAH-26SEP1312-T89.99',
    day: 'Miami, 12:00 on 13 Sept 2026',
    label: '90° or above',
    href: '/dashboard/markets?station=INDEX-MIAMI&kind=hourly&date=2026-09-13&hour=12',
  },
  {
    ticker: 'KXTEMPLAXHS-26SEP1300-T-0.01',
    day: 'Los Angeles, 00:00 on 13 Sept 2026',
    label: '0° or above',
    href: '/dashboard/markets?station=INDEX-LA-COASTAL&kind=hourly&date=2026-09-13&hour=0',
  },
  { ticker: 'KXRAIN-26SEP13-NYC', day: 'KXRAIN-26SEP13, 13 Sept 2026', label: 'NYC', href: undefined },
])('unlisted $ticker is $label on $day', ({ ticker, day, label, href }) => {
  const { place, date, ...view } = toMarketView(nameMarket(ticker, undefined));
  expect(view).toEqual({ ticker, day, label, href });
  expect(`${place}, ${date}`).toBe(day);
});

it('a market without a place has the venue’s own name and a link to its ticket', () => {
  const market = {
    ticker: 'KXRAIN-26SEP13-NYC',
    eventTicker: 'KXRAIN-26SEP13',
    kind: 'rain',
    station: null,
    bracket: null,
    city: 'New York City',
    date: '2026-09-13',
    label: 'More than 0 inches',
    settlement: { source: null, rulesText: '' },
  } as unknown as ListedMarket;
  expect(toMarketView(nameMarket(market.ticker, market))).toMatchObject({
    day: 'New York City rain, 13 Sept 2026',
    label: 'More than 0 inches',
    href: '/dashboard/markets/KXRAIN-26SEP13-NYC',
  });
});

it('an hourly market settles by the index, whatever the day', () => {
  expect(nameMarket('KXTEMPMIAH-26SEP1312-T89.99', undefined).source).toBe('Kalshi Weather Index');
  expect(nameMarket('KXLOWTCHI-26SEP25-B58.5', undefined).source).toBe('The Weather Company');
});
