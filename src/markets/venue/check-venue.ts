import type { Clock } from '../../core/time.js';
import { inParallel } from '../../core/steps.js';
import { createCatalogue } from './kalshi-fees.js';
import { readMarketPages, type KalshiClient } from './kalshi-client.js';
import { readMarket } from './kalshi-market.js';
import { isPlaced, marketKinds, type MarketKind } from '../market/market.js';
import { createNoteBook, type NoteKind } from '../market/source.js';

type VenueReport = Awaited<ReturnType<typeof checkVenue>>;

const SERIES_AT_ONCE = 8;
/** Kinds of notes that indicate a changed format, rather than markets of other kinds or places. */
const alarming: ReadonlySet<NoteKind> = new Set([
  'contradiction',
  'missing_field',
  'unknown_result',
  'unknown_status',
  'unknown_wording',
]);

export const isAlarming = ({ notes }: VenueReport): boolean => notes.some(({ kind }) => alarming.has(kind));

/**
 * Reads every series in the venue's climate category as the service would, and reports markets that could not be
 * placed. Uses only public data, without a key.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function checkVenue(
  { client, clock }: { client: KalshiClient; clock: Clock },
  onSeries: (done: number, all: number, ticker: string) => void,
  signal: AbortSignal,
) {
  const notes = createNoteBook();
  const catalogue = createCatalogue({
    client,
    clock,
    only: undefined,
    notes: () => notes,
    onFailure: (error) => {
      throw error;
    },
  });
  const { series } = await catalogue.read(signal);
  let done = 0;
  const minClose = Math.floor(clock.now() / 1000);
  const bySeries = await inParallel(series, { width: SERIES_AT_ONCE, signal }, async ({ ticker }, either) => {
    const found = await readMarketPages(
      client,
      '/markets',
      [
        ['series_ticker', ticker],
        ['min_close_ts', minClose],
      ],
      either,
    );
    onSeries(++done, series.length, ticker);
    return { ticker, count: found.length, markets: found.flatMap((value) => readMarket(value, notes) ?? []) };
  });
  const all = bySeries.flatMap(({ markets }) => markets);
  return {
    series: series.length,
    seriesWithMarkets: bySeries.filter(({ count }) => count > 0).length,
    kinds: marketKinds.map((kind) => {
      const markets = all.filter((market) => market.kind === kind);
      const placed = markets.filter(isPlaced);
      return {
        kind,
        series: new Set(markets.map(({ seriesTicker }) => seriesTicker)).size,
        events: new Set(markets.map(({ eventTicker }) => eventTicker)).size,
        markets: markets.length,
        placed: placed.length,
        places: new Set(placed.map(({ station }) => station.id)).size,
      };
    }),
    notes: notes.list(),
  };
}

const names: Record<MarketKind, string> = {
  daily_maximum: 'Daily maximum',
  daily_minimum: 'Daily minimum',
  hourly: 'Hourly',
  rain: 'Rain',
  other: 'Other',
};

export function venueReportText({ series, seriesWithMarkets, kinds, notes }: VenueReport): string {
  const head = ['', 'series', 'events', 'markets', 'placed', 'places'];
  const rows = kinds.map((row) => [
    names[row.kind],
    ...[row.series, row.events, row.markets, row.placed, row.places].map(String),
  ]);
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]!.length)));
  const table = [head, ...rows].map((row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
  );
  return [
    `The venue lists ${series} series in its climate category; ${seriesWithMarkets} have open or future markets.`,
    '',
    ...table,
    '',
    notes.length === 0
      ? 'Everything was read and assigned to a station.'
      : 'Not read, or not assigned to a station:',
    ...notes.map(({ kind, name, count, example }) => `  ${kind} ${name}: ${count}, such as ${example}`),
    '',
  ].join('\n');
}
