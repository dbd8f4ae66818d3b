import type { GaugeClient, UsageAnswer } from '../../../client/client.js';
import { deliverEvents, type Post } from '../../../client/delivery.js';
import { groupBy } from '../../../core/collections.js';
import { inChunks } from '../../../core/steps.js';
import type { OutgoingEvent, RecordRefusal } from './mapping.js';
import type { SourceRecord } from './record.js';

type Warning = UsageAnswer['warnings'][number];
/** With `--organization-column`. */
interface Named {
  organization?: string;
}
export type CapWarning = Extract<Warning, { code: 'unit_cap_exceeded' }> & Named;
export type LimitWarning = Extract<Warning, { code: 'limit_exceeded' }> & Named;

export type Delivery = Awaited<ReturnType<typeof deliver>>;

/** Retries until every event has an answer. @throws DeliveryError */
export async function deliver(post: Post, events: OutgoingEvent[]) {
  const { accepted, deduped, refused, warnings } = await deliverEvents(post, events);
  const refusals = refused.map(({ event: { record, event }, code, detail }): RecordRefusal => {
    return { record, code, detail, event };
  });
  const overCap: CapWarning[] = [];
  const overLimit: LimitWarning[] = [];
  /** Differ from the first event with the same key. */
  const mismatches: SourceRecord[] = [];
  for (const { warning, event } of warnings) {
    if (warning.code === 'unit_cap_exceeded') overCap.push(warning);
    else if (warning.code === 'limit_exceeded') overLimit.push(warning);
    else if (event) mismatches.push(event.record);
  }
  return { accepted, deduped, refusals, overCap, overLimit, mismatches };
}

/** `recorded` is what the service had; null if the lookup failed. */
export interface LostAnswer {
  records: number;
  recorded: number | null;
}

const LOOK_UP_SIZE = 500;
const LOOK_UP_TIMEOUT_MS = 5_000;

/** Undefined without events, or if the API key lacks the scope. */
export async function lookUpEvents(client: GaugeClient, events: readonly OutgoingEvent[]) {
  const records = events.length;
  if (records === 0) return undefined;
  const signal = AbortSignal.timeout(LOOK_UP_TIMEOUT_MS);
  let recorded = 0;
  const parts = [...groupBy(events, ({ organization }) => organization)].flatMap(([slug, own]) =>
    inChunks(own, LOOK_UP_SIZE).map((chunk) => [slug, chunk] as const),
  );
  try {
    for (const [slug, chunk] of parts) {
      const idempotencyKeys = chunk.map(({ event }) => event.idempotencyKey);
      const there = slug === undefined ? client : client.forOrganization(slug);
      const { data, response } = await there.POST('/api/usage/events/lookup', {
        body: { idempotencyKeys },
        signal,
      });
      if (response.status === 403) return undefined;
      if (!data) return { records, recorded: null };
      recorded += data.results.filter((result) => result.recorded).length;
    }
  } catch {
    return { records, recorded: null };
  }
  return { records, recorded };
}
