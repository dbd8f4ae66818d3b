import type { CapWarning } from './deliver.js';
import type { Tally, Warnings } from './ledger.js';
import { count, duration, printable, rate, whole } from './numbers.js';

/** How a run ended; `--json` prints it. */
export interface Summary {
  /** `stopped`: before the end of the input; `stopReason` says why. */
  state: 'complete' | 'stopped';
  stopReason?: string;
  url: string;
  dryRun: boolean;
  /** Records dealt with, from the start of the input: accepted + deduped + rejected. */
  records: number;
  /** Records that an earlier, interrupted run had dealt with. They are part of the counts. */
  resumedAfter: number;
  /** Records that were posted by this run. */
  sent: number;
  accepted: number;
  deduped: number;
  rejected: number;
  rejectedFile: string | null;
  warnings: (
    | ({ code: 'unit_cap_exceeded' } & CapWarning)
    | { code: 'duplicate_mismatch'; events: number; firstRecord: number }
  )[];
  seconds: number;
  /** This run's records per second. */
  recordsPerSecond: number;
}

function toWarningList({ overCap, mismatches, firstMismatch }: Warnings): Summary['warnings'] {
  return [
    ...[...overCap.values()].map(({ productSlug, metric, unitCap, used, period }) => ({
      code: 'unit_cap_exceeded' as const,
      productSlug,
      metric,
      unitCap,
      used,
      period,
    })),
    ...(firstMismatch === undefined
      ? []
      : [{ code: 'duplicate_mismatch' as const, events: mismatches, firstRecord: firstMismatch }]),
  ];
}

/** @param resumed what an earlier run had settled */
export function toSummary(
  run: Pick<Summary, 'state' | 'url' | 'dryRun' | 'sent' | 'rejectedFile' | 'seconds'> & {
    stopReason: string | undefined;
  },
  { records, accepted, deduped, rejected }: Tally,
  resumed: Tally,
  warnings: Warnings,
): Summary {
  const { state, stopReason, url, dryRun, sent, rejectedFile, seconds } = run;
  return {
    state,
    ...(stopReason === undefined ? {} : { stopReason }),
    url,
    dryRun,
    records,
    resumedAfter: resumed.records,
    sent,
    accepted,
    deduped,
    rejected,
    rejectedFile: rejected > 0 ? rejectedFile : null,
    warnings: toWarningList(warnings),
    seconds: Number(seconds.toFixed(3)),
    recordsPerSecond: seconds > 0 ? Math.round((records - resumed.records) / seconds) : 0,
  };
}

export function summaryText(summary: Summary): string {
  const { records, accepted, deduped, rejected, resumedAfter, seconds, url } = summary;
  const width = Math.max(...[accepted, deduped, rejected].map((n) => whole(n).length));
  const line = (label: string, n: number) => `  ${label.padEnd(10)}${whole(n).padStart(width)}`;
  const lines = [
    `${summary.dryRun ? 'Rehearsed' : 'Sent'} ${count(records - resumedAfter, 'record')} to ${url} in ${duration(seconds)} (${rate(records - resumedAfter, seconds)} a second).`,
    ...(resumedAfter > 0
      ? [`An earlier run had dealt with the first ${whole(resumedAfter)}; the counts include them.`]
      : []),
    line('accepted', accepted),
    line('deduped', deduped),
    line('rejected', rejected),
    ...(summary.dryRun ? ['A dry run: nothing was recorded.'] : []),
    ...summary.warnings.map(warningText),
    ...(summary.rejectedFile === null ? [] : [`What was rejected, and why: ${summary.rejectedFile}`]),
    ...(summary.state === 'stopped' ? ['The run stopped before the end of the input.'] : []),
  ];
  return lines.map(printable).join('\n');
}

function warningText(warning: Summary['warnings'][number]): string {
  if (warning.code === 'duplicate_mismatch') {
    return `Warning: ${whole(warning.events)} deduped ${warning.events === 1 ? 'event differs' : 'events differ'} from what the idempotency key was first used for; the first is record ${whole(warning.firstRecord)}.`;
  }
  const { productSlug, metric, unitCap, used, period } = warning;
  return `Warning: ${productSlug} is above its cap in ${period.start.slice(0, 7)}: ${used} of ${unitCap} ${metric}.`;
}
