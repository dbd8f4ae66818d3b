import type { MapRecord } from './mapping.js';
import type { OutgoingEvent, Refusal, SourceRecord } from './record.js';

/** Records that are sent together, and those among them that cannot be. */
export interface OutgoingBatch {
  /** Counts the batches from 0. */
  index: number;
  events: OutgoingEvent[];
  refusals: Refusal[];
  /** Number and position of its last record. */
  lastRecord: number;
  position: number;
}

/** Well under what the service takes in one body, and few in memory at once. */
const MAX_BATCH_LENGTH = 3 * 1024 * 1024;

export async function* toBatches(
  source: AsyncIterable<SourceRecord[]>,
  map: MapRecord,
  size: number,
): AsyncGenerator<OutgoingBatch> {
  let index = 0;
  let batch = emptyBatch(index);
  let length = 0;
  for await (const records of source) {
    for (const record of records) {
      const mapped = map(record);
      if ('json' in mapped) batch.events.push(mapped);
      else batch.refusals.push(mapped);
      batch.lastRecord = record.number;
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

const emptyBatch = (index: number): OutgoingBatch => ({
  index,
  events: [],
  refusals: [],
  lastRecord: 0,
  position: 0,
});
