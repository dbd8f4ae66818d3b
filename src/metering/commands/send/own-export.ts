import type { UsageEvent } from '../../../client/client.js';
import { readCsvText } from '../../../core/pages/csv.js';

type Row = Record<string, string | undefined>;

/** Columns of the events page's CSV file that have another name than the field of an event. */
const columnOf = { productSlug: 'product', idempotencyKey: 'idempotency_key', occurredAt: 'occurred_at' };

/** True if the header is that of Gauge's own file of events. */
export const isOwnExport = (header: readonly string[]): boolean =>
  [...Object.values(columnOf), 'metric', 'quantity', 'received_at', 'counted_quantity'].every((name) =>
    header.includes(name),
  );

/** Fields that `readOwnRow` adds. */
export const ownFields: readonly string[] = Object.keys(columnOf);

/** Takes the apostrophe of `csvRow` off the text and adds the fields of an event. */
export function readOwnRow(row: Row): Row {
  const columns: Row = Object.fromEntries(
    Object.entries(row).map(([name, cell]) => [name, cell && readCsvText(cell)]),
  );
  const fields = Object.entries(columnOf).map(([field, column]) => [field, columns[column]]);
  return { ...columns, ...(Object.fromEntries(fields) as Row) };
}

/** Reads what no flag names. An empty cell counts as no subject or no dimension. */
export function readOwnDetails({ subject, ...columns }: Row): Pick<UsageEvent, 'subject' | 'dimensions'> {
  const dimensions = Object.entries(columns).flatMap(([name, value]) =>
    name.startsWith('dimension.') && value ? [[name.slice('dimension.'.length), value] as const] : [],
  );
  return {
    ...(subject ? { subject } : {}),
    ...(dimensions.length > 0 ? { dimensions: Object.fromEntries(dimensions) } : {}),
  };
}
