import { Command, Option } from 'commander';
import { isUuid } from '../../../core/http/request.js';
import { printable } from '../../../core/terminal.js';
import { CommandError, runCommand, wholeFrom, type Terminal } from '../../../commands/kit/command.js';
import type { MappingOptions } from './mapping.js';
import { formats, guessFormat, type Format } from './records.js';
import { sendFile, summaryText, type SendOptions, type SendSurroundings } from './send.js';

interface Flags extends MappingOptions {
  format?: Format;
  delimiter?: string;
  batch: number;
  concurrency: number;
  maxAttempts: number;
  rejected?: string;
  dryRun?: boolean;
  restart?: boolean;
  backfill?: string;
  quiet?: boolean;
  json?: boolean;
}

const help = `
Each mapping flag takes one of
  name, a.b      a field or column, dots reach into nested objects
  =value         a constant
  $1, $2 …       the names on the way to the record in a JSON document
  lower(…)       any of these in lower case
A leading dot makes any word a field (.none). Without a flag the field of the same name is used;
quantity (default 1) and occurredAt (default: the time of receipt) may then be missing.

--idempotency-key hash makes the key from the record and its number in the input, so that the same file
counts once. Two files with equal records in equal places would count once as well: keep them apart with
hash(text), for example hash(2026-01-31).

Environment:
  GAUGE_URL      where the service answers (default: http://127.0.0.1:3000)
  GAUGE_API_KEY  an API key with the scope usage:write; with usage:read as well, a run that stops without an
                 answer asks what was recorded
  OPERATOR_TOKEN with --backfill, in place of the key: a token of the operator

Exit status: 0 every event was accepted or deduped, 1 something was rejected, 2 the run could not start or
not go on, 130 interrupted. An interrupted run continues where it was when it is started again.

Examples:
  npm run send -- events.ndjson
  npm run send -- calls.csv.gz --product-slug =search --metric =calls --quantity n --idempotency-key id
  npm run send -- trades.json --product-slug 'lower($1)' --metric =contracts --quantity count \\
    --idempotency-key trade_id --occurred-at none
  xz -dc archive.csv.xz | npm run send -- - --format csv
  npm run send -- last-month.ndjson --backfill 019c13c7-9a00-7000-8000-4b1d0a6e2f90`;

const createSendCommand = (): Command =>
  new Command('send')
    .description(
      'Sends usage events from a file to Gauge. Every event is counted once, however often it is sent.',
    )
    .argument('<file>', 'NDJSON, CSV or JSON, plain or gzip; - reads standard input')
    .addOption(
      new Option('--format <format>', 'how to read the file (default: by its extension)').choices([
        ...formats,
      ]),
    )
    .option('--delimiter <character>', 'between the fields of a CSV file (default: a comma; a tab for .tsv)')
    .option('--product-slug <field>', 'where an event finds its product')
    .option('--metric <field>', 'where an event finds its metric')
    .option('--quantity <field>', 'where an event finds its quantity')
    .option('--occurred-at <field>', 'where an event finds its RFC 3339 time; none: the time of receipt')
    .option('--idempotency-key <field>', 'where an event finds its key; hash: made from the record')
    .option('--batch <events>', 'events per request', wholeFrom(1, 500), 500)
    .option('--concurrency <requests>', 'requests in flight', wholeFrom(1, 64), 4)
    .option(
      '--max-attempts <count>',
      'failures of one request before giving up; 0: never',
      wholeFrom(0, 999_999),
      30,
    )
    .option('--rejected <file>', 'where rejected records go (default: <file>.rejected.ndjson)')
    .option('--restart', 'start from the beginning, whatever an interrupted run has left')
    .option('--backfill <id>', 'stage events of more than 7 days ago into a backfill of the operator')
    .option('--dry-run', 'have every event checked and nothing recorded')
    .option('--quiet', 'show no progress')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', help);

/** The key comes from the environment only: a flag would expose it in process listings. @throws CommandError */
function toSendOptions(file: string, flags: Flags, env: Record<string, string | undefined>): SendOptions {
  const guess = guessFormat(file);
  const format = flags.format ?? guess?.format;
  if (format === undefined)
    throw new CommandError(
      `Say what ${file === '-' ? 'standard input' : file} holds with --format ndjson, csv or json.`,
    );
  const delimiter = (flags.delimiter ?? guess?.delimiter ?? ',').replace('\\t', '\t');
  if (Array.from(delimiter).length !== 1 || delimiter === '"' || delimiter === '\n')
    throw new CommandError('--delimiter is one character.');
  const { productSlug, metric, quantity, occurredAt, idempotencyKey } = flags;
  return {
    file,
    format,
    delimiter,
    url: readUrl(env.GAUGE_URL),
    ...readDestination(flags, env),
    mapping: { productSlug, metric, quantity, occurredAt, idempotencyKey },
    batchSize: flags.batch,
    concurrency: flags.concurrency,
    maxAttempts: flags.maxAttempts,
    rejectedPath: flags.rejected ?? `${file === '-' ? 'stdin' : file}.rejected.ndjson`,
    isDryRun: flags.dryRun ?? false,
    isRestart: flags.restart ?? false,
    isQuiet: flags.quiet ?? false,
    isJson: flags.json ?? false,
  };
}

function readUrl(value: string | undefined): string {
  const text = value?.trim() || 'http://127.0.0.1:3000';
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    throw new CommandError('GAUGE_URL must be an address like https://gauge.example.com');
  return text.replace(/\/+$/, '');
}

/** @throws CommandError */
function readDestination(
  { backfill, dryRun }: Flags,
  env: Record<string, string | undefined>,
): Pick<SendOptions, 'apiKey' | 'backfill'> {
  if (backfill === undefined) return { apiKey: readKey(env.GAUGE_API_KEY), backfill };
  if (!isUuid(backfill)) throw new CommandError('--backfill is the id that the backfill was opened with.');
  if (dryRun)
    throw new CommandError('--dry-run does not go with --backfill: what is staged counts nothing yet.');
  const token = env.OPERATOR_TOKEN?.trim();
  if (!token)
    throw new CommandError('OPERATOR_TOKEN is not set. Staging into a backfill needs an operator token.');
  return { apiKey: token, backfill };
}

function readKey(value: string | undefined): string {
  const key = value?.trim();
  if (!key)
    throw new CommandError('GAUGE_API_KEY is not set. Set it to an API key with the scope usage:write.');
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new CommandError('GAUGE_API_KEY holds characters that no API key has.');
  return key;
}

export interface SendTerminal extends Terminal, SendSurroundings {
  env: Record<string, string | undefined>;
}

/** Resolves to the exit status; an interrupted run exits with 130. */
export const runSendCommand = (terminal: SendTerminal): Promise<number> =>
  runCommand<Flags>(createSendCommand(), terminal, async (flags, files) => {
    const { env, stdout, stderr, interrupt } = terminal;
    const options = toSendOptions(files[0]!, flags, env);
    const summary = await sendFile(options, terminal);
    stdout.write(`${options.isJson ? JSON.stringify(summary) : summaryText(summary)}\n`);
    if (summary.stopReason !== undefined) stderr.write(`send: ${printable(summary.stopReason)}\n`);
    if (summary.state === 'stopped') return interrupt.aborted ? 130 : 2;
    return summary.rejected > 0 ? 1 : 0;
  });
