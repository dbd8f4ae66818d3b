import { modeOf, toTable } from '../../core/text-table.js';
import { exact } from '../../core/http/json.js';
import type { DriftRow, LostSettlement } from './drift.js';
import type { DriftReport, RepairReport } from './reconcile.js';

export function driftText({ totals, hours, subjects, settlements }: DriftReport): string {
  if (totals.length + hours.length + subjects.length + settlements.length === 0)
    return 'No drift: every total and hour equals the sum of its events.';
  return [
    ...lostSettlements(settlements),
    ...section('Totals that differ from the sum of their events', totals, 'period', 'total'),
    ...section('Hours that differ from the sum of their events', hours, 'hour', 'hour total'),
    ...section('Subjects that differ from the sum of their events', subjects, 'time', 'total'),
  ].join('\n');
}

const lostSettlements = (rows: LostSettlement[]): string[] =>
  toTable('Settled reservations without their event', rows, {
    texts: {
      organization: 'organization',
      reservation: 'id',
      'settled at': 'settledAt',
      'idempotency key': 'idempotencyKey',
    },
  });

function section(title: string, rows: DriftRow[], period: string, recorded: string): string[] {
  const hasKeys = rows.some(({ apiKeyId }) => apiKeyId !== null);
  const hasParts = rows.some(({ part }) => part !== '');
  return toTable(title, rows, {
    texts: {
      organization: 'organization',
      product: 'product',
      [period]: 'period',
      mode: modeOf,
      metric: 'metric',
      ...(hasParts && { part: (row) => row.part.replaceAll(/\p{Cc}/gu, ' / ') }),
      ...(hasKeys && { key: (row) => row.apiKey ?? '' }),
    },
    numbers: {
      [recorded]: (row) => row.recordedQuantity ?? 'missing',
      'sum of events': (row) => row.actualQuantity ?? 'none',
      difference: 'difference',
      counted: (row) => row.recordedEvents ?? 'missing',
      events: (row) => row.actualEvents ?? 'none',
    },
  });
}

export function repairText({ organizations, totals, hours, subjects }: RepairReport): string {
  const plural = (n: number, one: string) => `${n} ${one}${n === 1 ? '' : 's'}`;
  const sums = [
    plural(totals, 'total'),
    plural(hours, 'hour'),
    ...(subjects > 0 ? [plural(subjects, 'subject sum')] : []),
  ];
  return `Set ${sums.slice(0, -1).join(', ')} and ${sums.at(-1)} of ${plural(organizations, 'Organization')} to the sums of their events.`;
}

/** `toJson` writes quantities as numbers with all digits. */
export function driftJson(report: DriftReport): object {
  return {
    drift: [report.totals, report.hours, report.subjects].reduce((sum, [row]) => sum + (row?.count ?? 0), 0),
    totals: report.totals.map(({ period, ...row }) => ({ period, ...toRow(row) })),
    hours: report.hours.map(({ period, ...row }) => ({ hour: period, apiKey: row.apiKey, ...toRow(row) })),
    ...(report.subjects.length > 0
      ? {
          subjects: report.subjects.map(({ period, ...row }) => ({
            slot: period,
            subject: row.part,
            ...toRow(row),
          })),
        }
      : {}),
    settlements: report.settlements.map(({ count: _count, ...row }) => row),
  };
}

const toRow = (row: Omit<DriftRow, 'period'>) => ({
  organization: row.organization,
  product: row.product,
  livemode: row.livemode,
  metric: row.metric,
  recorded: exact(row.recordedQuantity),
  sumOfEvents: exact(row.actualQuantity),
  difference: exact(row.difference),
  recordedEvents: exact(row.recordedEvents),
  events: exact(row.actualEvents),
});
