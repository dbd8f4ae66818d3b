import type { OutgoingBatch } from './batches.js';
import type { CapWarning, Delivery } from './deliver.js';
import type { Refusal } from './record.js';

/** What is known for certain about the records from the start of the input up to `lastRecord`. */
export interface Tally {
  lastRecord: number;
  records: number;
  accepted: number;
  deduped: number;
  rejected: number;
}

export const emptyTally = (): Tally => ({ lastRecord: 0, records: 0, accepted: 0, deduped: 0, rejected: 0 });

export interface Warnings {
  /** The latest word on each product, metric and period above its cap. */
  overCap: Map<string, CapWarning>;
  mismatches: number;
  firstMismatch: number | undefined;
}

export interface Ledger {
  readonly tally: Readonly<Tally>;
  readonly warnings: Readonly<Warnings>;
  /** Input position of the last settled record. */
  readonly position: number;
  /** Resolves when another batch may be taken up: how far one may run ahead of a slow one is bounded. */
  room(): Promise<void>;
  close(batch: OutgoingBatch, delivery: Delivery): void;
}

/**
 * Settles batches in the order of the input, although they are answered in any order: a record counts as done only
 * when all before it are done, so that a later run may start right after it. Refusals come out in that order too.
 */
export function createLedger(options: {
  tally: Tally;
  /** How many answered batches may wait for an earlier one. */
  window: number;
  onSettled(refusals: Refusal[]): void;
}): Ledger {
  const { tally, window } = options;
  const warnings: Warnings = { overCap: new Map(), mismatches: 0, firstMismatch: undefined };
  const answered = new Map<number, { batch: OutgoingBatch; delivery: Delivery }>();
  let next = 0;
  let position = 0;
  let waiting: (() => void)[] = [];

  function settle(batch: OutgoingBatch, delivery: Delivery): void {
    const refusals = [...batch.refusals, ...delivery.refusals].sort(
      (a, b) => a.record.number - b.record.number,
    );
    options.onSettled(refusals);
    tally.lastRecord = batch.lastRecord;
    tally.records += batch.events.length + batch.refusals.length;
    tally.accepted += delivery.accepted;
    tally.deduped += delivery.deduped;
    tally.rejected += refusals.length;
    position = batch.position;
    for (const warning of delivery.overCap)
      warnings.overCap.set(`${warning.productSlug}\n${warning.metric}\n${warning.period.start}`, warning);
    warnings.mismatches += delivery.mismatches.length;
    warnings.firstMismatch ??= delivery.mismatches[0]?.number;
  }

  return {
    tally,
    warnings,
    get position() {
      return position;
    },
    async room() {
      while (answered.size >= window) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    close(batch, delivery) {
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
