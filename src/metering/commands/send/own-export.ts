import type { UsageEvent } from '../../../client/client.js';
import { readCsvText } from '../../../core/pages/csv.js';

type Row = Record<string, string | undefined>;

/** Columns that have another name than the field of an event. */
const columnOf = { productSlug: 'product', idempotencyKey: 'idempotency_key', occurredAt: 'occurred_at' };

export const isOwnExport = (header: readonly string[]): boolean =>
  [...Object.values(columnOf), 'metric', 'quantity', 'received_at', 'counted_quantity'].every((name) =>
    header.includes(name),
  );

export const ownFields: readonly string[] = Object.keys(columnOf);

/** Takes off the apostrophe of `csvRow`. */
export function readOwnRow(row: Row): Row {
  const columns: Row = Object.fromEntries(
    Object.entries(row).map(([name, cell]) => [name, cell && readCsvText(cell)]),
  );
  const fields = Object.entries(columnOf).map(([field, column]) => [field, columns[column]]);
  return { ...columns, ...(Object.fromEntries(fields) as Row) };
}

/** An empty cell counts as none. */
export function readOwnDetails({ subject, ...columns }: Row): Pick<UsageEvent, 'subject' | 'dimensions'> {
  const dimensions = Object.entries(columns).flatMap(([name, value]) =>
    name.startsWith('dimension.') && value ? [[name.slice('dimension.'.length), value] as const] : [],
  );
  return {
    ...(subject ? { subject } : {}),
    ...(dimensions.length > 0 ? { dimensions: Object.fromEntries(dimensions) } : {}),
  };
}
