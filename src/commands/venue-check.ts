import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { systemClock } from '../core/clock.js';
import { ConfigError } from '../core/config.js';
import { readConfig } from '../config.js';
import { printable } from '../send/numbers.js';
import { checkVenue, isAlarming, venueReportText, type CheckProgress } from '../trading/venue/check-venue.js';
import {
  createKalshiClient,
  UnexpectedAnswerError,
  VenueUnavailableError,
} from '../trading/venue/kalshi-client.js';
import { createVenueBudget } from '../trading/venue/venue-budget.js';

const help = `
Reads every weather series of the venue as the service would, and prints what it could not read or place: a new status, a missing
field, another wording of the rules, a station that is not in the table. It needs no key, orders nothing and changes nothing; some
400 reads take about half a minute within what the venue allows to everybody.

Environment: KALSHI_BASE_URL.

Exit status: 0 all could be read (places and kinds that are not forecast here do not count), 1 something was not understood, 2
the venue could not be read.`;

function createProgress(): CheckProgress & { stop(): void } {
  if (!process.stderr.isTTY)
    return { start: () => undefined, advance: () => undefined, stop: () => undefined };
  const bar = new SingleBar({
    stream: process.stderr,
    format: '{bar} {percentage}% · {value} of {total} series · {ticker}',
    clearOnComplete: true,
  });
  return {
    start: (series) => bar.start(series, 0, { ticker: '' }),
    advance: (ticker) => bar.increment(1, { ticker }),
    stop: () => bar.stop(),
  };
}

const { json } = new Command('venue:check')
  .description('Reads the live venue and says what could not be placed.')
  .option('--json', 'print the report as JSON')
  .addHelpText('after', help)
  .parse()
  .opts<{ json?: true }>();
const progress = createProgress();
try {
  const { KALSHI_BASE_URL } = process.env;
  const { baseUrl } = readConfig({ KALSHI_BASE_URL }).trading.kalshi;
  const client = createKalshiClient({ baseUrl, budget: createVenueBudget() });
  const stopping = new AbortController();
  process.once('SIGINT', () => stopping.abort(new Error('interrupted')));
  const report = await checkVenue({ client, clock: systemClock }, progress, stopping.signal);
  progress.stop();
  process.stdout.write(
    json ? `${JSON.stringify(report, null, 2)}\n` : printableLines(venueReportText(report)),
  );
  process.exitCode = isAlarming(report) ? 1 : 0;
} catch (error) {
  progress.stop();
  const isExpected =
    error instanceof ConfigError ||
    error instanceof UnexpectedAnswerError ||
    error instanceof VenueUnavailableError;
  const { message, stack = message } = error as Error;
  process.stderr.write(
    `venue:check: ${printable(isExpected || message === 'interrupted' ? message : stack)}\n`,
  );
  process.exitCode = 2;
}

/** What the venue says goes to a terminal. */
function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}
