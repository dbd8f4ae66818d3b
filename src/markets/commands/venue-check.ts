import { Command } from 'commander';
import { readConfig } from '../../config.js';
import { systemClock } from '../../core/time.js';
import { printableLines } from '../../core/terminal.js';
import { FREE_FORECASTS, marketsConfig } from '../config.js';
import { checkVenue, isAlarming, venueReportText } from '../venue/check-venue.js';
import { createKalshiClient, UnexpectedAnswerError, VenueUnavailableError } from '../venue/kalshi-client.js';
import { createVenueBudget } from '../venue/venue-budget.js';
import {
  CommandError,
  listenForInterrupt,
  messageOf,
  openTerminal,
  runCommand,
} from '../../commands/kit/command.js';
import { createProgress } from '../../commands/kit/progress.js';

const help = `
Reads every weather series of the venue as the service would, and prints what it could not read or assign to a station: a new
status, a missing field, new wording of the rules, an unknown station. It needs no key, places no orders and changes nothing.
Some 400 reads take about half a minute within the venue's limit for every caller.

If the environment turns live trading on, it also warns about forecasts from a service for non-commercial use.

Environment: as for the service (KALSHI_BASE_URL, LIVE_TRADING, OPEN_METEO_API_KEY, …).

Exit status: 0 everything was read (places and kinds without forecasts here do not count), 1 something was not understood, 2
the venue could not be read.`;

const command = new Command('venue:check')
  .description('Reads the live venue and prints what could not be understood.')
  .option('--json', 'print the report as JSON')
  .addHelpText('after', help);
const terminal = openTerminal();
process.exitCode = await runCommand<{ json?: true }>(
  command,
  terminal,
  async ({ json }) => {
    const given = marketsConfig.names.map((name) => [name, process.env[name]]);
    const { kalshi, liveOrg, hasFreeForecasts } = readConfig(Object.fromEntries(given)).trading;
    const warnings = liveOrg !== undefined && hasFreeForecasts ? [FREE_FORECASTS] : [];
    const client = createKalshiClient({ baseUrl: kalshi.baseUrl, budget: createVenueBudget() });
    const stopping = listenForInterrupt(new CommandError('interrupted'));
    const progress = createProgress(terminal.stderr);
    const onSeries = (done: number, all: number, ticker: string) =>
      progress.show(done / all, `${done} of ${all} series · ${ticker}`);
    const report = await checkVenue({ client, clock: systemClock }, onSeries, stopping).finally(() =>
      progress.stop(),
    );
    terminal.stdout.write(
      json
        ? `${JSON.stringify({ ...report, warnings }, null, 2)}\n`
        : printableLines([venueReportText(report), ...warnings.map((text) => `Warning: ${text}\n`)].join('')),
    );
    return isAlarming(report) ? 1 : 0;
  },
  messageOf(UnexpectedAnswerError, VenueUnavailableError),
);
