import { formatDay, formatDecimal } from '../../core/pages/format.js';
import { toAddress } from '../../core/pages/address.js';
import type { MarketKind, MarketStatus } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { TradeMode } from '../ledger/orders-table.js';
import type { MarketName } from '../market/market-name.js';

/** How the pages of the portfolio write money and name markets. */

export const PORTFOLIO_PATH = '/dashboard/portfolio';
export const ORDERS_PATH = `${PORTFOLIO_PATH}/orders`;
export const SETTLEMENTS_PATH = `${PORTFOLIO_PATH}/settlements`;

/** `$1,234.50`, `−$0.04`; with more decimals only where there are any. */
export function formatMoney(micros: Micros): string {
  const [sign, amount] = micros < 0n ? ['−', -micros] : ['', micros];
  const fraction = String(amount % DOLLAR)
    .padStart(6, '0')
    .replace(/(?:00){1,2}$/, '');
  return `${sign}$${formatDecimal(amount / DOLLAR)}.${fraction}`;
}

/** A price or an average of prices: to a hundredth of a cent. */
export const formatPrice = (micros: Micros): string => formatMoney(((micros + 50n) / 100n) * 100n);

/** An amount that is a gain or a loss: the sign says it, the colour repeats it. */
export interface Change {
  text: string;
  tone: 'gain' | 'loss' | 'even';
}

export const toChange = (micros: Micros): Change => ({
  text: `${micros > 0n ? '+' : ''}${formatMoney(micros)}`,
  tone: micros > 0n ? 'gain' : micros < 0n ? 'loss' : 'even',
});

export const toChangeOrNull = (micros: Micros | null): Change | null =>
  micros === null ? null : toChange(micros);

/** What the venue says of a market, in words. */
export const marketStatuses: Readonly<Record<MarketStatus, { label: string; tone: string }>> = {
  initialized: { label: 'Not open yet', tone: 'info' },
  inactive: { label: 'Paused', tone: 'warn' },
  active: { label: 'Open', tone: 'good' },
  closed: { label: 'Closed', tone: 'info' },
  determined: { label: 'Determined', tone: 'info' },
  disputed: { label: 'Disputed', tone: 'warn' },
  amended: { label: 'Amended', tone: 'warn' },
  finalized: { label: 'Final', tone: 'info' },
};

/** A climate day is a date of the station's own calendar: it is in no zone. */
export const formatDate = (date: string): string => formatDay(new Date(`${date}T00:00:00Z`));

/** A market as the pages name it, with where it can be looked at. */
export const toMarketView = (name: MarketName) => ({
  ticker: name.ticker,
  label: name.label,
  day: dayOf(name),
  href: hrefOf(name),
});

const shortNames: Readonly<Partial<Record<MarketKind, string>>> = {
  daily_maximum: ' high',
  daily_minimum: ' low',
  rain: ' rain',
};

/** `New York high, 21 Nov 2026`, `Miami, 12:00 on 13 Sep 2026`. */
function dayOf({ eventTicker, city, kind, date, hour }: MarketName): string {
  const what = city === null ? eventTicker : `${city}${(kind && shortNames[kind]) ?? ''}`;
  if (date === null) return what;
  const clock = hour === null ? '' : `${String(hour).padStart(2, '0')}:00 on `;
  return `${what}, ${clock}${formatDate(date)}`;
}

/** The page of its event; where it has no place its own, while it is listed. */
function hrefOf({ ticker, station, kind, date, hour, isListed }: MarketName): string | undefined {
  const markets = '/dashboard/markets';
  if (!station) return isListed ? `${markets}/${encodeURIComponent(ticker)}` : undefined;
  return toAddress(markets, {
    station: station.id,
    kind: kind === null || kind === 'daily_maximum' ? undefined : kind,
    date: date ?? undefined,
    hour: hour ?? undefined,
  });
}

export const toModeTabs = (path: string, current: TradeMode) =>
  (['paper', 'live'] as const).map((mode) => ({
    label: mode === 'paper' ? 'Paper' : 'Live',
    href: toAddress(path, { mode: mode === 'paper' ? undefined : mode }),
    isCurrent: mode === current,
  }));
