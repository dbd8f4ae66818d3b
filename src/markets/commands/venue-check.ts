import { Command } from 'commander';
import { readConfig } from '../../config.js';
import { systemClock } from '../../core/time.js';
import { ConfigError } from '../../core/config.js';
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
Reads every weather series of the venue as the service would, and prints what it could not read or place: a new status, a missing
field, another wording of the rules, a station that is not in the table. It needs no key, orders nothing and changes nothing; some
400 reads take about half a minute within what the venue allows every caller.

Where the environment has live trading on, it also warns of forecasts from a service that is for non-commercial use.

Environment: as for the service (KALSHI_BASE_URL, LIVE_TRADING, OPEN_METEO_API_KEY, …).

Exit status: 0 all could be read (places and kinds that are not forecast here do not count), 1 something was not understood, 2
the venue could not be read.`;

const command = new Command('venue:check')
  .description('Reads the live venue and says what could not be placed.')
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
  messageOf(ConfigError, UnexpectedAnswerError, VenueUnavailableError),
);
