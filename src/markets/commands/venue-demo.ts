import { Command, Option } from 'commander';
import {
  CommandError,
  listenForInterrupt,
  messageOf,
  openTerminal,
  runCommand,
} from '../../commands/kit/command.js';
import { printableLines } from '../../core/terminal.js';
import { systemClock } from '../../core/time.js';
import { demoReportText, DemoRunError, isDemoUrl, runDemo, type DemoStep } from '../live/demo-run.js';
import { readSigningKey, SigningKeyError, signRequest } from '../live/sign.js';
import { createVenue } from '../live/venue.js';
import { createKalshiClient, UnexpectedAnswerError, VenueUnavailableError } from '../venue/kalshi-client.js';
import { createVenueBudget } from '../venue/venue-budget.js';

const help = `
Trades one contract on the venue's demo environment with play money, with the code that sends the service's live orders: an
order rests, is decreased and cancelled, another one fills, and the account must then differ by that fill alone. It changes no
order that it has not placed, uses no database, and refuses every host but the demo's. The contract that it buys stays.

Keys of the demo environment come from https://demo.kalshi.co; keys of the real venue are not valid there.

Exit status: 0 every step succeeded, 1 a step failed, 2 the run could not begin.`;

const command = new Command('venue:demo')
  .description("Places, changes, cancels and fills orders for one contract on the venue's demo environment.")
  .addOption(new Option('--key-id <id>', 'id of a demo key').env('KALSHI_DEMO_KEY_ID').makeOptionMandatory())
  .addOption(
    new Option('--key-file <path>', 'its private key in PEM form')
      .env('KALSHI_DEMO_PRIVATE_KEY_FILE')
      .makeOptionMandatory(),
  )
  .option('--base-url <url>', 'address of the demo', 'https://external-api.demo.kalshi.co/trade-api/v2')
  .option('--series <ticker>', 'series to trade in', 'KXHIGHNY')
  .addHelpText('after', help);
const terminal = openTerminal();
process.exitCode = await runCommand<Record<'keyId' | 'keyFile' | 'baseUrl' | 'series', string>>(
  command,
  terminal,
  async ({ keyId, keyFile, baseUrl, series }) => {
    if (!isDemoUrl(baseUrl))
      throw new CommandError(
        `${baseUrl} is not the venue's demo: use https://external-api.demo.kalshi.co/trade-api/v2 or https://demo-api.kalshi.co/trade-api/v2`,
      );
    const key = { id: keyId, privateKey: readSigningKey(keyFile) };
    const [clock, budget] = [systemClock, createVenueBudget()];
    const headers = (method: string, path: string) => signRequest(key, { atMs: clock.now(), method, path });
    const client = createKalshiClient({ baseUrl, budget, headers });
    const venue = createVenue({ baseUrl, key, clock, budget, timeoutMs: 10_000, backoffMs: 250 });
    const steps: DemoStep[] = [];
    const onStep = (step: DemoStep) => {
      steps.push(step);
      terminal.stderr.write(`${printableLines(step.name)}: ${step.isGood ? 'ok' : 'failed'}\n`);
    };
    const stopping = listenForInterrupt(new CommandError('interrupted'));
    try {
      await runDemo({ venue, client, clock, onStep }, series, stopping);
      return 0;
    } catch (error) {
      if (steps.length < 2 || !(error instanceof Error)) throw error;
      return 1;
    } finally {
      if (steps.length > 0) terminal.stdout.write(printableLines(demoReportText(steps)));
    }
  },
  messageOf(SigningKeyError, DemoRunError, UnexpectedAnswerError, VenueUnavailableError),
);
