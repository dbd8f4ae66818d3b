import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BacktestResult } from '../../backtest/backtest.js';
import type { QueueResult } from '../../backtest/queue.js';
import { runBacktestCommand } from '../../backtest/command.js';
import { wireMarket } from '../../../test/markets/support/fake-venue.js';

const folder = mkdtempSync(join(tmpdir(), 'gauge-backtest-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const write = (name: string, content: string | Buffer): string => {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
};

async function run(args: string[]) {
  let out = '';
  let err = '';
  const stderr = new PassThrough();
  stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const code = await runBacktestCommand({
    args,
    clock: { now: () => Date.parse('2026-11-20T12:00:00Z') },
    stdout: { write: (text) => (out += text) },
    stderr,
  });
  return { code, out, err };
}

const ladder = [
  { strike: { cap: 60 }, pays: (degrees: number) => degrees < 60 },
  ...[60, 62, 64, 66].map((floor) => ({
    strike: { floor, cap: floor + 1 },
    pays: (degrees: number) => degrees === floor || degrees === floor + 1,
  })),
  { strike: { floor: 67 }, pays: (degrees: number) => degrees > 67 },
];

/** The venue's records of consecutive New York days, which warm by one degree every four days. */
function recordedEvents(days: number): string {
  return Array.from({ length: days }, (_, i) => {
    const day = new Date(Date.UTC(2025, 1, 1 + i));
    const name = `KXHIGHNY-25${['FEB', 'MAR', 'APR'][day.getUTCMonth() - 1]}${String(day.getUTCDate()).padStart(2, '0')}`;
    // One minute before midnight in New York, where daylight saving time began on March 9.
    const hours = day.getTime() < Date.UTC(2025, 2, 9) ? 29 : 28;
    const close = new Date(day.getTime() + hours * 3_600_000 - 60_000);
    const temperature = 44 + Math.floor(i / 4) + (i % 3);
    return JSON.stringify({
      event: { event_ticker: name },
      markets: ladder.map(({ strike, pays }) => {
        const isWinner = pays(temperature);
        return wireMarket(name, strike, {
          open_time: new Date(day.getTime() - 10 * 3_600_000).toISOString(),
          close_time: close.toISOString(),
          status: 'finalized',
          result: isWinner ? 'yes' : 'no',
          expiration_value: String(temperature),
        });
      }),
    });
  }).join('\n');
}

/**
 * Trades on April 14 in which the two middle brackets cost less than their fair value for April 15; bids are two cents
 * lower.
 */
const tradesWith = (at?: string, dearerCents = 0) =>
  JSON.stringify({
    KXHIGHNY: Object.fromEntries(
      (
        [
          ['B62.5', 30],
          ['B64.5', 31],
          ['B60.5', 10],
        ] as const
      ).map(([suffix, cents]) => [
        `KXHIGHNY-25APR15-${suffix}`,
        [
          { taker_side: 'yes' as const, yes_price: cents, at: '2025-04-14T20:01:00Z' },
          { taker_side: 'no' as const, yes_price: cents - 2, at: '2025-04-14T20:02:00Z' },
          ...(at === undefined ? [] : [{ taker_side: 'yes' as const, yes_price: cents + dearerCents, at }]),
        ].map(({ taker_side, yes_price, at: created_time }) => ({
          count: 50,
          created_time,
          yes_price,
          no_price: 100 - yes_price,
          taker_side,
        })),
      ]),
    ),
  });

/** Half a megabyte that expands beyond the limit: concatenated gzip members form one valid file. */
const bomb = Buffer.concat(Array<Buffer>(110).fill(gzipSync(Buffer.alloc(4 * 1024 * 1024))));

describe('npm run backtest', () => {
  const events = write('events.jsonl.gz', gzipSync(recordedEvents(75)));
  const tradesFile = write('trades.json', tradesWith());
  const recorded = ['--events', events, '--trades', tradesFile, '--shuffles', '0', '--every', '5'];
  let ungatedJson: Awaited<ReturnType<typeof run>>;
  let ungatedText: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    ungatedJson = await run([...recorded, '--ungated', '--json']);
    ungatedText = await run([...recorded, '--ungated']);
  });

  it('buys nothing on recorded days by default, because no forecast has been scored', async () => {
    const { code, out } = await run([...recorded, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ purchases: 0, profit: 0, isUngated: false, shuffled: null });
  });

  it('trades recorded prices with data known by then when ungated', () => {
    const { code, out } = ungatedJson;
    expect(code).toBe(0);
    const result = JSON.parse(out) as BacktestResult;
    expect(result.signals).toBeGreaterThan(0);
    expect(result.purchases).toBeGreaterThan(0);
    // The trades prove at most 50 contracts per side in three markets.
    expect(result.contracts).toBeLessThanOrEqual(300);
    expect(result.openPurchases).toBe(0);
    expect(result.endEquity).toBeCloseTo(result.startCash + result.profit, 6);
  });

  it('prints the same as text', () => {
    const { out } = ungatedText;
    expect(out).toMatch(/^Source +recorded events, with the last maxima as forecast$/m);
    expect(out).toMatch(/^Daily profit +1 days are too few for an interval$/m);
    expect(out).toMatch(
      /^Profit +−?\$\d+\.\d\d after fees from settled purchases, .*; equity changed by −?\$\d+\.\d\d$/m,
    );
    expect(out).toMatch(/^Shuffled +not requested$/m);
    expect(out).toContain('Most frequent reasons for not buying');
  });

  it('does not shuffle a single event, and says so', async () => {
    const args = recorded.map((arg, i) => (recorded[i - 1] === '--shuffles' ? '20' : arg));
    const { code, out } = await run([...args, '--ungated']);
    expect(code).toBe(0);
    expect(out).toMatch(/^Shuffled +not possible with fewer than 10 events .* \(here 0 of 1\)$/m);
  });

  it('marks its purchases, and says so if nothing is known about them', async () => {
    const before = JSON.parse(ungatedJson.out) as BacktestResult;
    expect(before.execution).toMatchObject({ known: 0, judged: 0, missed: 0 });
    expect(before.execution.withPrints).toBe(before.execution.fills);
    expect(ungatedText.out).toMatch(/^Later prices +unknown for all \d+ fills$/m);
    // Half a minute after the purchase, other buyers pay more.
    const files = [
      '--events',
      events,
      '--trades',
      write('more.json', tradesWith('2025-04-14T20:05:30Z', 20)),
    ];
    const rest = recorded.slice(recorded.indexOf('--shuffles'));
    const { execution } = JSON.parse(
      (await run([...files, ...rest, '--ungated', '--json'])).out,
    ) as BacktestResult;
    expect(execution.missed).toBeGreaterThan(0);
    expect(execution.after.map(({ move }) => move)).toEqual([null, expect.any(Number), expect.any(Number)]);
    const words = (await run([...files, ...rest, '--ungated'])).out;
    expect(words).toMatch(/^Missed +\d+ of \d+ fills would have missed: \d+ contracts, profit −?\$/m);
    expect(words).toMatch(/^Price after +15 s unknown, 30 s \+\d+\.\d ¢ \(\d+ fills?\), 60 s /m);
  });

  it('reports the result of bids among recorded trades', async () => {
    const { code, out } = await run(['--trades', tradesFile, '--queue', '0', '100']);
    expect(code).toBe(0);
    expect(out).toMatch(/^6 trades in 3 markets: bids for 10 YES contracts/);
    const { rows } = JSON.parse(
      (await run(['--trades', tradesFile, '--queue', '0', '100', '--json'])).out,
    ) as QueueResult;
    expect(rows.map(({ queueAhead, orders }) => [queueAhead, orders])).toEqual([
      [0, 3],
      [100, 3],
    ]);
  });

  it('uses given forecasts, and names the line of an error', async () => {
    const head = 'station,date,model_run_at,fetched_at,member1,member2';
    const forecasts = write(
      'f.csv',
      `${head}\nKNYC,2025-04-15,2025-04-14T12:00:00Z,2025-04-14T16:00:00Z,63,x\n`,
    );
    const { code, err } = await run([...recorded, '--forecasts', forecasts]);
    expect(code).toBe(2);
    expect(err).toBe(`backtest: ${forecasts}, line 2, column member2: not a number\n`);
  });

  it.each([
    [['--events', events], '--events and --trades go together'],
    [['--queue', '0'], '--queue goes only with --trades'],
    [['--queue', '0', ...recorded], '--queue goes only with --trades'],
    [['tape.gz', '--trades', tradesFile, '--queue', '0'], '--queue goes only with --trades'],
    [['--trades', tradesFile, '--queue', '-1'], 'It must be a whole number from 0 to 100000'],
    [['tape.gz', ...recorded], 'either tapes or --events with --trades, not both'],
    [[...recorded, '--from', '2026-01-01'], '--from, --to and --stations apply only to the simulated world'],
    [['--stations', 'KNYC', ...recorded], '--from, --to and --stations apply only to the simulated world'],
    [['--stations', 'KNYC', 'KXXX'], 'It must be a station like KNYC'],
    [['--from', '2026-05-01', '--to', '2026-04-01'], 'the range must have 1 to 400 days'],
    [['--from', 'May'], 'It must be a date like 2026-10-01'],
    [['--cash', '0'], 'It must be an amount in dollars'],
    [['--shuffles', '-1'], 'It must be a whole number from 0 to 1000'],
    [['--events', '/none/e.jsonl', '--trades', tradesFile], 'no such file'],
    [
      ['--events', write('bad.jsonl', '{"markets":[{}]}'), '--trades', tradesFile],
      'bad.jsonl, line 1: markets[0].ticker',
    ],
    [['--events', write('text.jsonl', 'x'), '--trades', tradesFile], 'text.jsonl, line 1: not JSON'],
    [['--events', events, '--trades', write('bad.json', '{"S":{"T":[{}]}}')], 'bad.json: S.T.0.count'],
    [['--events', write('bad.jsonl.gz', 'no gzip'), '--trades', tradesFile], 'incorrect header check'],
    [[tradesFile], 'no record of a tape'],
    [['--from', '2026-02-31'], 'It must be a date like 2026-10-01'],
    [['--events', write('none.jsonl', '\n'), '--trades', tradesFile], 'none.jsonl: no events found'],
    [[...recorded, '--forecasts', '/none/f.csv'], 'no such file'],
    [[...recorded, '--forecasts', folder], 'illegal operation on a directory'],
    [
      ['--events', write('cut.jsonl.gz', gzipSync('x'.repeat(999)).subarray(0, 20)), '--trades', tradesFile],
      'cut.jsonl.gz cannot be unpacked: unexpected end of file',
    ],
    [
      ['--events', write('bomb.jsonl.gz', bomb), '--trades', tradesFile],
      'bomb.jsonl.gz holds more than 400 MB',
    ],
  ])('refuses %j', async (args, message) => {
    const { code, out, err } = await run(args);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(message);
    expect(err).not.toContain('    at ');
  });

  it('runs over days of the simulated world', async () => {
    const { code, out } = await run([
      '--from',
      '2026-10-10',
      '--to',
      '2026-10-11',
      '--stations',
      'KNYC',
      'kden',
      '--shuffles',
      '0',
      '--json',
    ]);
    expect(code).toBe(0);
    // Maxima and minima in two cities over two days, at four times before the end of each day.
    expect(JSON.parse(out)).toMatchObject({ decisions: 2 * 2 * 4 * 2, days: 2 });
  });
});

const shared = (name: string) =>
  fileURLToPath(new URL(`../../../../shared/data/kalshi/${name}`, import.meta.url));
const recordedFiles = ['NY', 'CHI', 'MIA'].map((city) => shared(`events_KXHIGH${city}.jsonl.gz`));
const tradeFile = shared('raw_trades_5cities_2025-04-15.json.gz');

it.skipIf(!existsSync(tradeFile))('runs over the recorded day', async () => {
  const args = [
    '--events',
    ...recordedFiles,
    '--trades',
    tradeFile,
    '--ungated',
    '--shuffles',
    '0',
    '--json',
  ];
  const { code, out, err } = await run(args);
  expect(code).toBe(0);
  expect(err).toContain('events have no result and are settled by their closing prices');
  const result = JSON.parse(out) as BacktestResult;
  expect(result.purchases).toBeGreaterThan(0);
  expect(result.openPurchases).toBe(0);
  // All trades of the day are known, but few took place within a minute of a purchase.
  const { fills, withPrints, known, judged, missed } = result.execution;
  expect(withPrints).toBe(fills);
  expect(known).toBeGreaterThan(0);
  expect(judged).toBeLessThanOrEqual(known);
  expect(missed).toBeLessThanOrEqual(judged);
});
