/**
 * The tests' fake venue as a separate process: 24 cities, about 1,500 markets, and the given number of book changes per
 * second.
 */
import { setInterval } from 'node:timers';
import { startFakeVenue } from '../test/markets/support/fake-venue.js';
import { fillVenue } from '../test/markets/support/fake-world.js';

const changesPerSecond = Number(process.argv[2] ?? 0);
const venue = await startFakeVenue();
fillVenue(venue, new Date().toISOString());
process.stdout.write(`${JSON.stringify({ port: Number(new URL(venue.url).port) })}\n`);

const tickers = [...venue.books.keys()];
const TICK_MS = 20;
let made = 0;
const startedAt = performance.now();
setInterval(() => {
  const due = ((performance.now() - startedAt) / 1000) * changesPerSecond;
  for (; made < due; made++) {
    const ticker = tickers[(made * 7919) % tickers.length]!;
    const [price] = venue.books.get(ticker)!.yes_dollars!.at(-1)!;
    // Alternates between adding and removing contracts, so that the books keep their size.
    venue.stream.change(ticker, 'yes', price, Math.floor(made / tickers.length) % 2 ? '-1.00' : '1.00');
  }
}, TICK_MS);
