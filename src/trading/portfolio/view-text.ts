import { formatDay, formatDecimal } from '../../pages/format.js';
import { toAddress } from '../../pages/address.js';
import { DOLLAR, type Micros } from '../money.js';
import type { TradeMode } from '../orders/table.js';
import type { MarketName } from './portfolio-names.js';

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

/** A climate day is a date of the station's own calendar: it is in no zone. */
export const formatDate = (date: string): string => formatDay(new Date(`${date}T00:00:00Z`));

/** A market as the pages name it, with where it can be looked at. */
export const toMarketView = ({ ticker, eventTicker, station, date, label }: MarketName) => ({
  ticker,
  label,
  /** `New York, 21 Nov 2026`. */
  day: [station?.city ?? eventTicker, date === null ? undefined : formatDate(date)]
    .filter((part) => part !== undefined)
    .join(', '),
  href: station && toAddress('/dashboard/markets', { station: station.id, date: date ?? undefined }),
});

export const toModeTabs = (path: string, current: TradeMode) =>
  (['paper', 'live'] as const).map((mode) => ({
    label: mode === 'paper' ? 'Paper' : 'Live',
    href: toAddress(path, { mode: mode === 'paper' ? undefined : mode }),
    isCurrent: mode === current,
  }));

export const sellAddress = (ticker: string): string =>
  `${PORTFOLIO_PATH}/positions/${encodeURIComponent(ticker)}/sell`;
