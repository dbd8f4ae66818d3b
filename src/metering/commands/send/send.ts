import { createGaugeClient, type GaugeClient } from '../../../client/client.js';
import { createPost, DeliveryError, REQUEST_TIMEOUT_MS } from '../../../client/delivery.js';
import { describeProxy } from '../../../core/http/proxy.js';
import { formatCount, formatDecimal } from '../../../core/pages/format.js';
import { monthOf, systemClock } from '../../../core/time.js';
import { printable } from '../../../core/terminal.js';
import { CommandError, type Terminal } from '../../../commands/kit/command.js';
import { openInput, type Input } from '../../../commands/kit/input.js';
import { createProgress, duration, noProgress, type Progress } from '../../../commands/kit/progress.js';
import { createLedger, toBatches, type OutgoingBatch, type Warnings } from './batches.js';
import { deliver, lookUpEvents, type CapWarning, type LimitWarning, type LostAnswer } from './delivery.js';
import { openRejectedFile } from './files.js';
import { createMapping, type MappedColumn, type MappingOptions, type OutgoingEvent } from './mapping.js';
import { readRecords, type FormatOptions } from './records.js';

export interface SendOptions extends FormatOptions {
  file: string;
  url: string;
  key: string;
  sender: 'organization' | 'service' | 'operator';
  /** Undefined if the key has one, or each event names its own. */
  organization: string | undefined;
  /** The mode of an operator's events. */
  livemode: boolean;
  mapping: MappingOptions;
  /** Columns that a CSV file must have. */
  needed: readonly MappedColumn[];
  isDryRun: boolean;
  batchSize: number;
  concurrency: number;
  maxAttempts: number;
  rejectedPath: string;
  isQuiet: boolean;
  isJson: boolean;
}

export interface SendSurroundings extends Pick<Terminal, 'stdin' | 'stderr'> {
  interrupt: AbortSignal;
  backoffMs?: number;
  silentMs?: number;
}

const REPORT_AGAIN_MS = 5_000;
const LINE_EVERY_MS = 5_000;
/** A service that never responded in this time probably has another address. */
const SILENT_MS = 30_000;

/**
 * A summary of the settled events, even if the run is interrupted or stopped.
 * @throws CommandError if the run cannot start
 */
export async function sendFile(options: SendOptions, surroundings: SendSurroundings) {
  const { stderr, interrupt } = surroundings;
  const startedAt = performance.now();
  const map = createMapping(options.mapping);
  const input = openInput(options.file, surroundings.stdin);
  const progress = options.isQuiet ? noProgress : createProgress(stderr, LINE_EVERY_MS);
  const rejected = openRejectedFile(options.rejectedPath, options.file);
  const ledger = createLedger({
    window: options.concurrency * 16,
    onSettled: (refusals) => rejected.append(refusals),
  });

  let sent = 0;
  const stop = createStop(interrupt);
  const client = openClient(options);
  const unanswered = new Set<OutgoingEvent>();
  const post = openPost(client, { options, surroundings, signal: stop.signal, progress, unanswered });
  const source = readRecords(input, options, options.needed);
  const batches = toBatches(source, map, { size: options.batchSize, each: options.mapping.each });

  function showProgress(): void {
    const { records } = ledger.tally;
    const rate = rateOf(records, (performance.now() - startedAt) / 1000);
    const share = input.size ? Math.min(ledger.position / input.size, 1) : undefined;
    progress.show(share, `${formatCount(records, 'record')} · ${formatDecimal(rate)}/s`);
  }

  async function work(): Promise<void> {
    while (!stop.signal.aborted) {
      await Promise.race([ledger.room(), stop.stopped]);
      const next: IteratorResult<OutgoingBatch, void> = await batches.next();
      if (next.done) return;
      const { events } = next.value;
      const delivery = await deliver(post, events);
      sent += events.length;
      ledger.close(next.value, delivery);
      showProgress();
    }
  }

  await runInParallel(options.concurrency, work, stop, input);

  const isComplete = !stop.signal.aborted;
  rejected.close();
  progress.stop();
  const failure = stop.failure();
  const couldStart = ledger.tally.records > 0 || failure instanceof DeliveryError;
  if (failure && !(couldStart && (failure instanceof CommandError || failure instanceof DeliveryError)))
    throw failure;
  const { reasons, ...counts } = ledger.tally;
  const lost = options.isDryRun ? undefined : await lookUpEvents(client, [...unanswered]);
  const seconds = (performance.now() - startedAt) / 1000;
  return {
    /** `stopped`: before the input ended; `stopReason` says why. */
    state: isComplete ? ('complete' as const) : ('stopped' as const),
    stopReason: isComplete ? undefined : (failure?.message ?? 'The run was interrupted.'),
    url: options.url,
    dryRun: options.isDryRun,
    sent,
    rejectedFile: counts.rejected > 0 ? rejected.path : null,
    unanswered: lost,
    seconds: Number(seconds.toFixed(3)),
    ...counts,
    /** Most frequent reasons first. */
    rejections: Object.entries(reasons)
      .map(([reason, records]) => ({ reason, records }))
      .sort((a, b) => b.records - a.records),
    warnings: listWarnings(ledger.warnings),
    recordsPerSecond: rateOf(counts.records, seconds),
  };
}

/** `--json` prints it. */
export type Summary = Awaited<ReturnType<typeof sendFile>>;

async function runInParallel(
  concurrency: number,
  work: () => Promise<void>,
  stop: ReturnType<typeof createStop>,
  input: Input,
): Promise<void> {
  const workers = Array.from({ length: concurrency }, () => work().catch((error) => stop.fail(error)));
  await Promise.race([Promise.all(workers), stop.stopped]);
  // Requests in flight get a moment to finish.
  if (stop.signal.aborted) input.close();
  await Promise.all(workers);
}

function openClient({ url, key, sender, organization, livemode }: SendOptions): GaugeClient {
  const options = { baseUrl: url, allowHttp: true, timeoutMs: REQUEST_TIMEOUT_MS };
  if (sender === 'organization') return createGaugeClient({ ...options, apiKey: key });
  // An operator's routes have the bodies and responses of a service key's, but other paths.
  const fetchAsOperator = (input: Parameters<typeof fetch>[0]) => {
    const address = new URL((input as Request).url.replace(`${url}/service`, `${url}/operator`));
    if (!livemode) address.searchParams.set('livemode', 'false');
    return fetch(new Request(address, input as Request));
  };
  const client = createGaugeClient({
    ...options,
    serviceKey: key,
    ...(sender === 'operator' ? { fetch: fetchAsOperator } : {}),
  });
  return organization === undefined ? client : client.forOrganization(organization);
}

function openPost(client: GaugeClient, { options, surroundings, signal, progress, unanswered }: PostParts) {
  const { backoffMs = 250, silentMs = SILENT_MS } = surroundings;
  let lastReport = { reason: '', at: 0 };
  return createPost({
    client,
    isForMany: options.mapping.organizationColumn !== undefined,
    isDryRun: options.isDryRun,
    address: options.url + describeProxy(options.url),
    addressName: 'GAUGE_URL',
    maxAttempts: options.maxAttempts,
    // The service may not exist yet.
    ...(options.maxAttempts > 0 ? { silentMs } : {}),
    backoffMs,
    signal,
    onRetry(reason, waitMs) {
      // All senders hit the same problem.
      const now = performance.now();
      if (reason === lastReport.reason && now - lastReport.at < REPORT_AGAIN_MS) return;
      lastReport = { reason, at: now };
      progress.note(printable(`Trying again in ${duration(waitMs / 1000)}: ${reason}`));
    },
    onUnclear(events) {
      // An operator has no key to look events up with.
      if (options.sender === 'operator') return;
      for (const event of events) unanswered.add(event as OutgoingEvent);
    },
  });
}

interface PostParts {
  options: SendOptions;
  surroundings: SendSurroundings;
  signal: AbortSignal;
  progress: Progress;
  /** In flight when the run ended; they may have been recorded. */
  unanswered: Set<OutgoingEvent>;
}

/** Later failures are consequences of the first. */
function createStop(interrupt: AbortSignal) {
  const failing = new AbortController();
  const signal = AbortSignal.any([interrupt, failing.signal]);
  const stopped = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  let failure: Error | undefined;
  return {
    signal,
    stopped,
    failure: () => failure,
    fail(error: unknown) {
      if (signal.aborted) return;
      failure = error as Error;
      failing.abort();
    },
  };
}

const listWarnings = ({ overCap, overLimit, mismatches, firstMismatch }: Warnings) => [
  ...overCap.values(),
  ...overLimit.values(),
  ...(firstMismatch === undefined
    ? []
    : [{ code: 'duplicate_mismatch' as const, events: mismatches, firstRecord: firstMismatch }]),
];

const rateOf = (count: number, seconds: number): number => (seconds > 0 ? Math.round(count / seconds) : 0);

export function summaryText(summary: Summary): string {
  const { records, accepted, deduped, rejected, seconds, url } = summary;
  const width = Math.max(...[accepted, deduped, rejected].map((n) => formatDecimal(n).length));
  const line = (label: string, n: number) => `  ${label.padEnd(10)}${formatDecimal(n).padStart(width)}`;
  const lines = [
    `${summary.dryRun ? 'Checked' : 'Sent'} ${formatCount(records, 'record')} to ${url} in ${duration(seconds)} (${formatDecimal(summary.recordsPerSecond)} a second).`,
    line('accepted', accepted),
    line('deduped', deduped),
    line('rejected', rejected),
    ...rejectionLines(summary),
    ...(summary.repeated > 0 ? [repeatedText(summary.repeated)] : []),
    ...(summary.untimed > 0 ? [untimedText(summary.untimed)] : []),
    ...(summary.dryRun ? ['This was a dry run. Nothing was recorded.'] : []),
    ...summary.warnings.map(warningText),
    ...(summary.rejectedFile === null ? [] : [`Rejected events and reasons: ${summary.rejectedFile}`]),
    ...(summary.unanswered ? [unansweredText(summary.unanswered)] : []),
    ...(summary.state === 'stopped'
      ? ['The run stopped before the end of the input. Send it again: no event counts twice.']
      : []),
  ];
  return lines.map(printable).join('\n');
}

const REASONS_SHOWN = 8;

function rejectionLines({ rejected, rejections }: Summary): string[] {
  const shown = rejections.slice(0, REASONS_SHOWN);
  const others = rejected - shown.reduce((sum, { records }) => sum + records, 0);
  const all = others > 0 ? [...shown, { reason: 'Other reasons', records: others }] : shown;
  const width = Math.max(0, ...all.map(({ records }) => formatDecimal(records).length));
  return all.map(({ reason, records }) => `    ${formatDecimal(records).padStart(width)}  ${reason}`);
}

const repeatedText = (records: number) =>
  `${formatCount(records, 'record')} repeated the key of an earlier record of this input. If these are different events, their keys must differ.`;

const untimedText = (events: number) =>
  `${formatCount(events, 'event')} had no time. They count in the month of receipt, ${monthOf(systemClock.now()).slice(0, 7)} (UTC).`;

function unansweredText({ records, recorded }: LostAnswer): string {
  const sent = `${formatCount(records, 'record')} got no response`;
  if (recorded === null) return `${sent}. The service could not be queried for them.`;
  return `${sent}. According to the service, ${formatDecimal(recorded)} of them were recorded and ${formatDecimal(records - recorded)} were not.`;
}

const nameOf = ({ organization, productSlug }: CapWarning | LimitWarning): string =>
  organization === undefined ? productSlug : `${productSlug} of ${organization}`;

function warningText(warning: Summary['warnings'][number]): string {
  if (warning.code === 'duplicate_mismatch') {
    return `Warning: ${formatDecimal(warning.events)} deduped ${warning.events === 1 ? 'event differs' : 'events differ'} from the recorded event with the same idempotency key. The first is record ${formatDecimal(warning.firstRecord)}.`;
  }
  if (warning.code === 'limit_exceeded') {
    const { metric, limit, used } = warning;
    return `Warning: ${nameOf(warning)} is above its limit for ${limit.window}: ${used} of ${limit.quantity} ${metric}.`;
  }
  const { metric, unitCap, used, period } = warning;
  return `Warning: ${nameOf(warning)} is above its cap in ${period.start.slice(0, 7)}: ${used} of ${unitCap} ${metric}.`;
}
