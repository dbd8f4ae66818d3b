import { expect, it } from 'vitest';
import { createReceivers } from '../../src/webhooks/send.js';

const fast = { isOk: true, durationMs: 10 };
const hanging = { isOk: false, durationMs: 15_000 };

/** The room of an endpoint now. */
function roomOf(receivers: ReturnType<typeof createReceivers>, id: string): number {
  const { ids, rooms, others } = receivers.rooms();
  const place = ids.indexOf(id);
  return place < 0 ? others : rooms[place]!;
}

it('an endpoint that answers fast gets more room, one that fails or is slow less, and never none for ever', () => {
  const receivers = createReceivers();
  expect(roomOf(receivers, 'a')).toBe(4);
  for (let n = 0; n < 100; n++) {
    receivers.begin('a');
    receivers.finish('a', fast);
  }
  expect(roomOf(receivers, 'a')).toBe(64);
  receivers.begin('a');
  receivers.finish('a', { isOk: true, durationMs: 2_000 });
  expect(roomOf(receivers, 'a')).toBe(32);
  for (let n = 0; n < 100; n++) {
    receivers.begin('a');
    receivers.finish('a', hanging);
  }
  expect(roomOf(receivers, 'a')).toBe(1);
});

it('a thousand endpoints that hang leave a quarter of the places to those that answer', () => {
  const receivers = createReceivers();
  for (let n = 0; n < 10; n++) {
    receivers.begin('good');
    receivers.finish('good', fast);
  }
  let begun = 0;
  for (let n = 0; n < 1_000; n++)
    for (let room = roomOf(receivers, `hanging ${n}`); room > 0; room--, begun++)
      receivers.begin(`hanging ${n}`);
  expect(begun).toBe(768);
  expect(receivers.free()).toBe(256);
  expect(roomOf(receivers, 'good')).toBe(14);
  receivers.finish('hanging 0', hanging);
  expect(roomOf(receivers, 'another')).toBe(1);
});
