import type { OrderBook } from '../markets/book.js';
import type { Market } from '../markets/market.js';
import { formatDollars, type Micros } from '../money.js';
import { bracketLabel } from '../settlement/brackets.js';

/** A market as `/markets` shows it. */
export function toMarketJson(market: Market, book: OrderBook, marketSource: string) {
  const { station, bracket } = market;
  return {
    ticker: market.ticker,
    eventTicker: market.eventTicker,
    seriesTicker: market.seriesTicker,
    station: station.id,
    city: station.city,
    measure: station.series.measure,
    date: market.date,
    bracket: {
      kind: bracket.kind,
      floor: bracket.floor,
      cap: bracket.cap,
      unit: station.series.unit,
      label: bracketLabel(bracket),
    },
    status: market.status,
    ...toQuoteJson(market, book),
    lastPrice: priceOrNull(market.lastPrice),
    volume: market.volume,
    volume24h: market.volume24h,
    openInterest: market.openInterest,
    openTime: market.openTime.toISOString(),
    closeTime: market.closeTime.toISOString(),
    tickSize: formatDollars(tickSizeOf(market)),
    url: urlOf(market, marketSource),
  };
}

/** What stands in the book: best prices, and how many contracts at them. */
export const toQuoteJson = (market: Market, book: OrderBook) => ({
  yesBid: priceOrNull(market.yesBid),
  yesAsk: priceOrNull(market.yesAsk),
  noBid: priceOrNull(market.noBid),
  noAsk: priceOrNull(market.noAsk),
  yesBidSize: book.yes[0]?.contracts ?? 0,
  // Who sells YES bids for NO.
  yesAskSize: book.no[0]?.contracts ?? 0,
});

export const priceOrNull = (price: Micros | null): string | null =>
  price === null ? null : formatDollars(price);

/** The step of prices where the market stands now: some markets have finer ones near their ends. */
function tickSizeOf({ priceRanges, yesAsk, yesBid, lastPrice }: Market): Micros {
  const price = yesAsk ?? yesBid ?? lastPrice;
  const present = priceRanges.find(({ start, end }) => price !== null && price >= start && price <= end);
  if (present) return present.step;
  return priceRanges.map(({ step }) => step).reduce((least, step) => (step < least ? step : least));
}

/** Where a person can look at the market: at the venue, or on our own page for a venue that is simulated. */
function urlOf({ seriesTicker, station, date }: Market, marketSource: string): string {
  return marketSource === 'kalshi'
    ? `https://kalshi.com/markets/${seriesTicker.toLowerCase()}`
    : `/dashboard/markets?station=${station.id}&date=${date}`;
}
