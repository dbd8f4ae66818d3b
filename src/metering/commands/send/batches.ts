import type { CapWarning, Delivery, LimitWarning } from './delivery.js';
import { splitRecord } from './fields.js';
import { createKeySet } from './key-set.js';
import type { MapRecord, OutgoingEvent, RecordRefusal } from './mapping.js';
import type { SourceRecord } from './record.js';

export type OutgoingBatch = ReturnType<typeof emptyBatch>;

/** JSON characters: well below the service's body limit, and small in memory. */
const MAX_BATCH_LENGTH = 3 * 1024 * 1024;

export async function* toBatches(
  source: AsyncIterable<SourceRecord[]>,
  map: MapRecord,
  { size, each }: { size: number; each: string | undefined },
): AsyncGenerator<OutgoingBatch> {
  let index = 0;
  let batch = emptyBatch(index);
  let length = 0;
  const seen = createKeySet();
  for await (const records of source) {
    const split = each === undefined ? records : records.flatMap((record) => splitRecord(record, each));
    for (const record of split) {
      const mapped = refuseRepeat(map(record), seen);
      if ('json' in mapped) batch.events.push(mapped);
      else batch.refusals.push(mapped);
      batch.position = record.position;
      length += 'json' in mapped ? mapped.json.length : 0;
      const isFull = batch.events.length + batch.refusals.length >= size || length >= MAX_BATCH_LENGTH;
      if (!isFull) continue;
      yield batch;
      batch = emptyBatch(++index);
      length = 0;
    }
  }
  if (batch.events.length + batch.refusals.length > 0) yield batch;
}

/** A key that one input has twice is no resend: its second event would be lost as a duplicate. */
function refuseRepeat(mapped: ReturnType<MapRecord>, seen: ReturnType<typeof createKeySet>) {
  if (!('json' in mapped)) return mapped;
  const { organization = '', idempotencyKey } = mapped.event;
  if (seen.add(`${organization} ${idempotencyKey}`)) return mapped;
  const { record, event } = mapped;
  return {
    record,
    event,
    code: REPEATED,
    detail: 'An earlier record of this input has the same idempotency key.',
  };
}

const REPEATED = 'repeated_key';

const emptyBatch = (index: number) => ({
  index,
  events: [] as OutgoingEvent[],
  refusals: [] as RecordRefusal[],
  position: 0,
});

const MAX_REASONS = 100;

type Tally = ReturnType<typeof emptyTally>;

/** Counts from the start of the input. */
const emptyTally = () => ({
  /** Accepted, deduped and rejected. */
  records: 0,
  accepted: 0,
  deduped: 0,
  rejected: 0,
  /** An earlier record of the input has the same key. */
  repeated: 0,
  /** Sent without a time of their own; they count at the time of receipt. */
  untimed: 0,
  /** Only the first 100 reasons are counted. */
  reasons: {} as Record<string, number>,
});

/** A record's own values would make each reason unique. */
const reasonOf = ({ code, detail }: RecordRefusal): string =>
  code === 'invalid_record' ? detail.replace(/"(?:[^"\\]|\\.)*"/g, '…').replace(/: .*/s, '.') : detail;

function countReason(reasons: Tally['reasons'], refusal: RecordRefusal): void {
  const reason = reasonOf(refusal);
  const count = Object.hasOwn(reasons, reason) ? reasons[reason]! : 0;
  if (count > 0 || Object.keys(reasons).length < MAX_REASONS) reasons[reason] = count + 1;
}

export type Warnings = ReturnType<typeof noWarnings>;

const noWarnings = () => ({
  /** For each product, metric and period above its cap. */
  overCap: new Map<string, CapWarning>(),
  overLimit: new Map<string, LimitWarning>(),
  mismatches: 0,
  firstMismatch: undefined as number | undefined,
});

const placeOf = ({ organization, productSlug, metric }: CapWarning | LimitWarning, part: unknown): string =>
  JSON.stringify([organization, productSlug, metric, part]);

/** Reports in input order, even if answers arrive out of order. */
export function createLedger(options: {
  /** Answered batches that may wait for an unanswered earlier one. */
  window: number;
  onSettled(refusals: RecordRefusal[]): void;
}) {
  const { window } = options;
  const tally = emptyTally();
  const warnings = noWarnings();
  const answered = new Map<number, { batch: OutgoingBatch; delivery: Delivery }>();
  let next = 0;
  let position = 0;
  let waiting: (() => void)[] = [];

  function settle(batch: OutgoingBatch, delivery: Delivery): void {
    const refusals = [...batch.refusals, ...delivery.refusals].sort(
      (a, b) => a.record.number - b.record.number,
    );
    options.onSettled(refusals);
    tally.records += batch.events.length + batch.refusals.length;
    tally.accepted += delivery.accepted;
    tally.deduped += delivery.deduped;
    tally.rejected += refusals.length;
    tally.repeated += refusals.filter(({ code }) => code === REPEATED).length;
    tally.untimed += batch.events.filter(({ event }) => event.occurredAt === undefined).length;
    for (const refusal of refusals) countReason(tally.reasons, refusal);
    position = batch.position;
    for (const warning of delivery.overCap)
      warnings.overCap.set(placeOf(warning, warning.period.start), warning);
    for (const warning of delivery.overLimit)
      warnings.overLimit.set(placeOf(warning, warning.limit), warning);
    warnings.mismatches += delivery.mismatches.length;
    warnings.firstMismatch ??= delivery.mismatches[0]?.number;
  }

  return {
    tally: tally as Readonly<Tally>,
    warnings: warnings as Readonly<Warnings>,
    get position() {
      return position;
    },
    /** Limits how far fast batches can get ahead of a slow one. */
    async room() {
      while (answered.size >= window) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    close(batch: OutgoingBatch, delivery: Delivery) {
      answered.set(batch.index, { batch, delivery });
      for (let ready = answered.get(next); ready; ready = answered.get(next)) {
        settle(ready.batch, ready.delivery);
        answered.delete(next++);
      }
      for (const resolve of waiting) resolve();
      waiting = [];
    },
  };
}
