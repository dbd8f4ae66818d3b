import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { groupEvents } from '../../../src/markets/market/event.js';
import { readMarket, shareTemperatures, toOrderBook } from '../../../src/markets/venue/kalshi-market.js';
import { isPlaced, type ListedMarket } from '../../../src/markets/market/market.js';
import { createNoteBook } from '../../../src/markets/market/source.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { bracketPays, isWholeLadder, parseBracket } from '../../../src/markets/market/brackets.js';
import { sourceOn } from '../../../src/markets/market/rules.js';
import { findSeries } from '../../../src/markets/market/stations.js';
import { kalshiOrderBookSchema, kalshiSeriesSchema } from '../../../src/markets/venue/kalshi-schema.js';

type Json = Record<string, unknown>;

const data = new URL('../../../../shared/data/', import.meta.url);
const filesIn = (folder: string, pattern: RegExp): string[] =>
  existsSync(new URL(folder, data))
    ? readdirSync(new URL(folder, data)).filter((name) => pattern.test(name))
    : [];
const textOf = (path: string) => readFileSync(new URL(path, data), 'utf8');

function readAll(bodies: readonly unknown[]) {
  const notes = createNoteBook();
  const markets = bodies.map((body) => readMarket(body, notes));
  return {
    markets: markets.filter((market) => market !== undefined),
    left: bodies.length - markets.filter(Boolean).length,
    notes: notes.list(),
  };
}

/** Checks that each settled event has exactly one winner, the bracket that our rule derives from the recorded value. */
function expectWinners(markets: readonly ListedMarket[]): { settled: number; open: number } {
  const count = { settled: 0, open: 0 };
  for (const { eventTicker, markets: ofEvent } of groupEvents(shareTemperatures(markets))) {
    expect(isWholeLadder(ofEvent.map(({ bracket }) => bracket)), eventTicker).toBe(true);
    const winners = ofEvent.filter(({ settlementValue }) => settlementValue === DOLLAR);
    if (winners.length === 0) {
      count.open++;
      continue;
    }
    count.settled++;
    const { settledTemperature } = winners[0]!;
    expect(settledTemperature, eventTicker).not.toBeNull();
    const byRule = ofEvent.filter(({ bracket }) => bracketPays(bracket, settledTemperature!));
    expect(
      byRule.map(({ ticker }) => ticker),
      eventTicker,
    ).toEqual(winners.map(({ ticker }) => ticker));
  }
  return count;
}

const events = filesIn('kalshi', /^events_.*\.jsonl\.gz$/);
describe.skipIf(events.length === 0)('events of 2024 and 2025 as sent by the venue', () => {
  it.each(events)(
    '%s: every body is parsed and placed, and the recorded value explains every winner',
    (name) => {
      const lines = gunzipSync(readFileSync(new URL(`kalshi/${name}`, data)))
        .toString()
        .trim()
        .split('\n');
      const bodies = lines.flatMap((line) => (JSON.parse(line) as { markets: Json[] }).markets);
      const { markets, left, notes } = readAll(bodies);
      expect(notes).toEqual([]);
      expect(left).toBe(0);
      expect(markets.every(isPlaced)).toBe(true);
      const series = /events_(.*)\.jsonl/.exec(name)![1]!;
      expect(new Set(markets.map(({ station }) => station?.id))).toEqual(
        new Set([findSeries(series)!.station.id]),
      );
      expect(new Set(markets.map(({ settlement }) => settlement.source))).toEqual(
        new Set(['National Weather Service']),
      );
      const { settled, open } = expectWinners(markets);
      expect(settled + open).toBe(lines.length);
      const results = bodies.filter(({ result }) => result === 'yes').length;
      expect(settled).toBe(results);
    },
  );
});

const bodies = filesIn('kalshi-2026', /^(markets|event)_.*\.json$/);
describe.skipIf(bodies.length === 0)('bodies of 2026 as sent by the venue', () => {
  it.each(bodies)('%s is parsed and placed like its series, with the source of its day', (name) => {
    const { markets: sent } = JSON.parse(textOf(`kalshi-2026/${name}`)) as { markets: Json[] };
    const { markets, left, notes } = readAll(sent);
    expect(notes).toEqual([]);
    expect(left).toBe(0);
    if (name.endsWith('_empty.json')) expect(sent).toEqual([]);
    for (const market of markets) {
      const series = findSeries(market.seriesTicker);
      // Skips hourly series and series that Gauge lists without a place.
      if (!series) continue;
      expect(market).toMatchObject({
        kind: series.kind,
        station: { id: series.station.id },
        settlement: { source: sourceOn(market.date!) },
      });
    }
    expectWinners(markets);
  });

  it.each(filesIn('kalshi-2026', /^orderbook_.*\.json$/))('%s is a book', (name) => {
    const { orderbook_fp: book } = kalshiOrderBookSchema.parse(JSON.parse(textOf(`kalshi-2026/${name}`)));
    const { yes, no } = toOrderBook({ yes: book.yes_dollars ?? [], no: book.no_dollars ?? [] });
    expect(yes.length + no.length).toBeGreaterThan(10);
    // A book holds only unmatched bids, so the best bids for YES and NO add up to less than a dollar.
    expect(yes[0]!.price + no[0]!.price).toBeLessThan(DOLLAR);
  });

  it.each(filesIn('kalshi-2026', /^series_.*\.json$/))('%s is a series', (name) => {
    const { series } = JSON.parse(textOf(`kalshi-2026/${name}`)) as { series: unknown };
    expect(kalshiSeriesSchema.parse(series)).toMatchObject({ fee_type: 'quadratic', fee_multiplier: 1 });
  });

  const settled = filesIn('kalshi-2026', /^settled_.*\.csv$/);
  it.each(settled)('%s: the recorded value explains every winner, and is the first final report', (name) => {
    const rows = parse<Record<string, string>>(textOf(`kalshi-2026/${name}`), {
      columns: true,
      skip_empty_lines: true,
    });
    const events = [...new Set(rows.map((row) => row.event_ticker!))];
    for (const event of events) {
      const markets = rows.filter((row) => row.event_ticker === event);
      for (const row of markets) {
        const number = (text: string | undefined) => (text ? Number(text) : undefined);
        const bracket = parseBracket({
          ticker: row.market_ticker!,
          strikeType: row.strike_type,
          floorStrike: number(row.floor_strike),
          capStrike: number(row.cap_strike),
          label: '',
        });
        const value = Number(row.expiration_value);
        expect(bracketPays(bracket!, value), row.market_ticker).toBe(row.result === 'yes');
        expect(row.settlement_value_dollars, row.market_ticker).toBe(
          row.result === 'yes' ? '1.0000' : '0.0000',
        );
        expect(value, row.market_ticker).toBe(Number(row.first_final_cli_max_f));
      }
      expect(
        markets.filter(({ result }) => result === 'yes'),
        event,
      ).toHaveLength(1);
    }
    expect(events.length).toBeGreaterThan(0);
  });
});
