import type { Answer, Post } from './post.js';
import type { OutgoingEvent, Refusal, SourceRecord } from './record.js';

export interface CapWarning {
  productSlug: string;
  metric: string;
  unitCap: number;
  used: number;
  period: { start: string; end: string };
}

/** What became of some events: every one of them is accepted, deduped or refused. */
export interface Delivery {
  accepted: number;
  deduped: number;
  refusals: Refusal[];
  overCap: CapWarning[];
  /** Repeats that differ from what their key was first used for. */
  mismatches: SourceRecord[];
}

const OTHER_MODE =
  'The idempotency key was used before in the other mode (live or test): this event is not counted. Send it with another key.';

/**
 * Delivers events until each has its answer. Those that break the schema are taken out and the others sent again; a
 * batch that is refused as a whole is halved until what is at fault stands alone.
 * @throws SendError
 */
export async function deliver(post: Post, events: OutgoingEvent[]): Promise<Delivery> {
  if (events.length === 0) return { accepted: 0, deduped: 0, refusals: [], overCap: [], mismatches: [] };
  const answer = await post(events);
  if (answer.kind === 'recorded') return toDelivery(answer.answer, events);
  const { code, detail } = answer.problem;
  const broken = brokenEvents(answer, events);
  if (broken.size > 0) {
    const rest = await deliver(
      post,
      events.filter((_event, i) => !broken.has(i)),
    );
    return { ...rest, refusals: [...broken.values(), ...rest.refusals] };
  }
  if (events.length === 1)
    return { ...(await deliver(post, [])), refusals: [refuse(events[0]!, code, detail)] };
  const middle = events.length >> 1;
  const first = await deliver(post, events.slice(0, middle));
  return merge(first, await deliver(post, events.slice(middle)));
}

function toDelivery(
  answer: Extract<Answer, { kind: 'recorded' }>['answer'],
  events: OutgoingEvent[],
): Delivery {
  const delivery: Delivery = {
    accepted: answer.accepted,
    deduped: answer.deduped,
    refusals: (answer.rejected ?? []).map(({ index, code, detail }) => refuse(events[index]!, code, detail)),
    overCap: [],
    mismatches: [],
  };
  for (const warning of answer.warnings) {
    if (warning.code === 'unit_cap_exceeded') delivery.overCap.push(warning);
    else if (warning.code === 'duplicate_mismatch') {
      const event = events[warning.index]!;
      if (!warning.differs?.includes('livemode')) delivery.mismatches.push(event.record);
      else {
        // Not counted in this mode, and never will be: no repeat, but something to put right.
        delivery.deduped--;
        delivery.refusals.push(refuse(event, warning.code, OTHER_MODE));
      }
    }
  }
  return delivery;
}

/** The events that the problem names, each with the first thing that is wrong with it. */
function brokenEvents({ problem }: Extract<Answer, { kind: 'refused' }>, events: OutgoingEvent[]) {
  const broken = new Map<number, Refusal>();
  for (const { index, pointer, code, detail } of problem.errors ?? []) {
    const event = index === undefined ? undefined : events[index];
    if (index === undefined || event === undefined || broken.has(index)) continue;
    const field = pointer?.split('/').slice(3).join('/');
    broken.set(index, refuse(event, code, field ? `${field} ${detail}` : detail));
  }
  return broken;
}

const refuse = ({ record, event }: OutgoingEvent, code: string, detail: string): Refusal => ({
  record,
  code,
  detail,
  event,
});

function merge(a: Delivery, b: Delivery): Delivery {
  return {
    accepted: a.accepted + b.accepted,
    deduped: a.deduped + b.deduped,
    refusals: [...a.refusals, ...b.refusals],
    overCap: [...a.overCap, ...b.overCap],
    mismatches: [...a.mismatches, ...b.mismatches],
  };
}
