import { Command, InvalidArgumentError, Option } from 'commander';
import { printable } from '../../../core/terminal.js';
import {
  CommandError,
  readServiceUrl,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../../commands/kit/command.js';
import { findNamedFormat, namedFormats } from './formats.js';
import { listMappedColumns, type MappingOptions } from './mapping.js';
import { formats, guessFormat, type Format } from './records.js';
import { sendFile, summaryText, type SendOptions, type SendSurroundings } from './send.js';

interface Flags extends MappingOptions {
  format?: Format | keyof typeof namedFormats;
  delimiter?: string;
  batch: number;
  concurrency: number;
  maxAttempts: number;
  rejected?: string;
  dryRun?: boolean;
  organization?: string;
  test?: boolean;
  quiet?: boolean;
  json?: boolean;
}

function describeFormats(): string {
  const defaults = (mapping: MappingOptions) =>
    [
      mapping.productSlug === undefined ? '--product-slug needed' : `product ${mapping.productSlug}`,
      `metric ${mapping.metric}`,
      `quantity ${mapping.quantity ?? 1}`,
    ].join(', ');
  return Object.entries(namedFormats)
    .map(([name, { mapping }]) => `  ${name.padEnd(12)} ${defaults(mapping)}`)
    .join('\n');
}

const help = `
Each mapping flag takes one of
  name, a.b      a field or column; dots reach into nested objects and columns of JSON
  =value         a constant
  $1, $2 …       the names on the path to the record in a JSON document
  lower(…)       any of these in lower case
  join(…, …)     several of these as one text, for keys and subjects
  unix(…)        a Unix time in seconds, milliseconds or microseconds
A leading dot makes any word a field (.none). Without a flag, the field of the same name is used;
quantity (default: 1) and occurredAt (default: the time of receipt) can then be missing.

A time may have a blank for the T and an offset like +02 or UTC. A time without a zone needs --time-zone. Without
a time, an event counts in the month of receipt (UTC).

--format also names an export of another program, whose fields it maps. Flags replace fields, for example
--quantity properties.tokens:
${describeFormats()}

A key that occurs twice in one input is not a resend: the second record is rejected.

--idempotency-key hash derives the key from the record and its position in the input, so the same file is
counted once. Equal records at the same position in two files also count once. Use hash(text) to keep the
files apart, for example hash(2026-01-31).

Environment:
  GAUGE_URL      the address of the service (default: http://127.0.0.1, with PORT or 3000)
  GAUGE_ALLOW_HTTP
                 yes: send keys to an http address of another machine, unencrypted
  GAUGE_API_KEY  an API key or a service key with the scope usage:write; if it also has usage:read, a run that stops
                 without a response looks up which events were recorded
  OPERATOR_TOKEN an operator token, with --organization instead of a service key

Exit status: 0 every event was accepted or deduped, 1 something was rejected, 2 the run could not start or
not continue, 130 interrupted. Send the file of such a run again: no event counts twice.

Examples:
  npm run send -- events.ndjson
  npm run send -- calls.csv.gz --product-slug =search --metric =calls --quantity n --idempotency-key id
  npm run send -- trades.json --product-slug 'lower($1)' --metric =contracts --quantity count \\
    --idempotency-key trade_id --occurred-at none
  xz -dc archive.csv.xz | npm run send -- - --format csv
  npm run send -- last-month.ndjson --organization acme
  npm run send -- all-customers.csv --organization-column customer`;

const createSendCommand = (): Command =>
  new Command('send')
    .description(
      'Sends usage events from a file to Gauge. Every event is counted once, even if it is sent again.',
    )
    .argument('<file>', 'NDJSON, CSV or JSON, plain or gzip; - reads standard input')
    .addOption(
      new Option('--format <format>', 'how to read the file (default: by its extension)').choices([
        ...formats,
        ...Object.keys(namedFormats),
      ]),
    )
    .option(
      '--delimiter <character>',
      'field separator of a CSV file (default: that of its line sep=, or a comma; a tab for .tsv)',
    )
    .option('--product-slug <field>', 'source of the product')
    .option('--metric <field>', 'source of the metric')
    .option('--quantity <field>', 'source of the quantity')
    .option('--occurred-at <field>', 'source of the time; none: the time of receipt')
    .option('--idempotency-key <field>', 'source of the idempotency key; hash: derived from the record')
    .option('--subject <field>', 'source of the subject; without this flag, events name none')
    .option(
      '--dimension <name=field>',
      'source of a dimension, like model=model_name; may be repeated',
      (flag: string, before: string[] | undefined) => [...(before ?? []), flag],
    )
    .option('--each <field>', 'a list in each record; each of its elements is an event')
    .option('--time-zone <name>', 'zone of times without one, like UTC or Europe/Berlin')
    .option('--decimal-comma', 'quantities have a comma for the point, like 1,5')
    .option('--batch <events>', 'events per request', wholeFrom(1, 500), 500)
    .option('--concurrency <requests>', 'requests in flight', wholeFrom(1, 64), 4)
    .option(
      '--max-attempts <count>',
      'failures of a request before the run gives up; 0: never give up',
      wholeFrom(0, 999_999),
      30,
    )
    .option('--rejected <file>', 'where rejected records go (default: <file>.rejected.ndjson)')
    .option(
      '--organization <slug>',
      'send for this Organization, with a service key or as the operator, events up to 400 days old, too',
      toSlug,
    )
    .option(
      '--organization-column <field>',
      'source of the Organization, for a file of many; needs a service key',
    )
    .option('--test', 'with --organization: the events are test usage')
    .option('--dry-run', 'check every event and record nothing')
    .option('--quiet', 'show no progress')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', help);

function toSlug(value: string): string {
  if (/^\.{0,2}$/.test(value)) throw new InvalidArgumentError('It is not the slug of an Organization.');
  return value;
}

/** A flag would expose the key in process listings. */
function toSendOptions(file: string, flags: Flags, env: Record<string, string | undefined>): SendOptions {
  const guess = guessFormat(file);
  const named = findNamedFormat(flags.format);
  const format = named
    ? (guess?.format ?? named.reader)
    : ((flags.format as Format | undefined) ?? guess?.format);
  if (format === undefined)
    throw new CommandError(
      `Set the format of ${file === '-' ? 'standard input' : file} with --format ndjson, csv or json.`,
    );
  const delimiter = (flags.delimiter ?? guess?.delimiter)?.replace('\\t', '\t');
  if (
    delimiter !== undefined &&
    (Array.from(delimiter).length !== 1 || delimiter === '"' || delimiter === '\n')
  )
    throw new CommandError('--delimiter must be one character.');
  const given = mappingOf(flags);
  const mapping = { ...named?.mapping, ...given };
  return {
    file,
    format,
    delimiter,
    url: readServiceUrl(env.GAUGE_URL, 'GAUGE_URL', env.GAUGE_ALLOW_HTTP),
    ...readDestination(flags, env),
    mapping,
    // The subject of a named format may be missing.
    needed: listMappedColumns({ ...mapping, subject: given.subject }),
    batchSize: flags.batch,
    concurrency: flags.concurrency,
    maxAttempts: flags.maxAttempts,
    rejectedPath: flags.rejected ?? `${file === '-' ? 'stdin' : file}.rejected.ndjson`,
    isDryRun: flags.dryRun ?? false,
    isQuiet: flags.quiet ?? false,
    isJson: flags.json ?? false,
  };
}

function mappingOf(flags: Flags): MappingOptions {
  const { productSlug, metric, quantity, occurredAt, idempotencyKey, subject, dimension } = flags;
  const { each, timeZone, decimalComma, organizationColumn } = flags;
  const fields = { productSlug, metric, quantity, occurredAt, idempotencyKey, subject, dimension };
  const all = { ...fields, each, timeZone, decimalComma, organizationColumn };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function readDestination(
  { organization, organizationColumn, test }: Flags,
  env: Record<string, string | undefined>,
): Pick<SendOptions, 'key' | 'sender' | 'organization' | 'livemode'> {
  if (organization !== undefined && organizationColumn !== undefined)
    throw new CommandError('Set --organization or --organization-column, not both.');
  const isForOthers = (organization ?? organizationColumn) !== undefined;
  const key = env.GAUGE_API_KEY?.trim();
  if (key?.startsWith('service_')) {
    if (!isForOthers)
      throw new CommandError(
        'GAUGE_API_KEY is a service key. Add --organization SLUG or --organization-column FIELD.',
      );
    if (test)
      throw new CommandError('--test needs an operator token. The mode of a service key is that of the key.');
    return { key: readKey(key), sender: 'service', organization, livemode: true };
  }
  if (organizationColumn !== undefined)
    throw new CommandError('--organization-column needs a service key in GAUGE_API_KEY.');
  if (organization === undefined) {
    if (test)
      throw new CommandError('--test needs --organization. The mode of an API key is that of the key.');
    return { key: readKey(key), sender: 'organization', organization, livemode: true };
  }
  const token = env.OPERATOR_TOKEN?.trim();
  if (!token)
    throw new CommandError(
      'OPERATOR_TOKEN is not set. --organization needs an operator token, or a service key in GAUGE_API_KEY.',
    );
  return { key: token, sender: 'operator', organization, livemode: !test };
}

function readKey(value: string | undefined): string {
  const key = value?.trim();
  if (!key)
    throw new CommandError('GAUGE_API_KEY is not set. Set it to an API key with the scope usage:write.');
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new CommandError('GAUGE_API_KEY contains characters that no API key has.');
  return key;
}

export interface SendTerminal extends Terminal, SendSurroundings {
  env: Record<string, string | undefined>;
}

/** An interrupted run exits with 130. */
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
