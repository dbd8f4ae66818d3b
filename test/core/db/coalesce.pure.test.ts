import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { createCoalescer, type CoalesceOptions } from '../../../src/core/db/coalesce.js';

interface Item {
  id: number;
  weight: number;
  bytes: number;
}

const unbounded = { weight: Infinity, bytes: Infinity };

/** A flush function that waits until the test releases it and records all flushes. */
function createGate(answer: (item: Item) => number | Error = (item) => item.id) {
  const flushes: { items: Item[]; release: () => void; fail: (error: Error) => void }[] = [];
  let running = 0;
  const gate = {
    flushes,
    open: () => flushes.filter((f) => f.release !== done),
    maxRunning: 0,
    flush(items: Item[]): Promise<(number | Error)[]> {
      gate.maxRunning = Math.max(gate.maxRunning, ++running);
      return new Promise((resolve, reject) => {
        const entry = {
          items,
          release: () => finish(() => resolve(items.map(answer))),
          fail: (error: Error) => finish(() => reject(error)),
        };
        const finish = (settle: () => void) => {
          entry.release = done;
          entry.fail = done;
          running--;
          settle();
        };
        flushes.push(entry);
      });
    },
  };
  return gate;
}
const done = () => undefined;

const options = (
  gate: ReturnType<typeof createGate>,
  more: Partial<CoalesceOptions<Item, number>> = {},
): CoalesceOptions<Item, number> => ({
  flush: (items) => gate.flush(items),
  parallel: 1,
  fullWeight: 10,
  maxWeight: 20,
  weigh: (item) => item.weight,
  measure: (item) => item.bytes,
  queueLimit: unbounded,
  ...more,
});

const item = (id: number, weight = 1, bytes = 0): Item => ({ id, weight, bytes });

describe('a coalescer that gathers', () => {
  it('gathers while each turn of the event loop brings a request, and sends a lone request at once', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate, { gather: { weight: 10, ms: 20_000 } }));
    void coalescer.submit(item(1));
    for (let id = 2; id <= 4; id++) {
      await nextTurn();
      void coalescer.submit(item(id));
    }
    await expect.poll(() => gate.flushes, { interval: 1 }).toHaveLength(1);
    expect(gate.flushes[0]!.items.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
    gate.flushes[0]!.release();
    const startedAt = performance.now();
    void coalescer.submit(item(5));
    await expect.poll(() => gate.flushes, { interval: 1 }).toHaveLength(2);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    gate.flushes[1]!.release();
    await coalescer.drain();
  });

  it('stops at its weight limit and at its time limit', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate, { gather: { weight: 3, ms: 1000 }, maxWeight: 100 }));
    for (let id = 1; id <= 3; id++) void coalescer.submit(item(id));
    await expect.poll(() => gate.flushes, { interval: 1 }).toHaveLength(1);
    gate.flushes[0]!.release();
    await coalescer.drain();
    const timed = createCoalescer(options(gate, { gather: { weight: 1e9, ms: 20 } }));
    const startedAt = performance.now();
    while (gate.flushes.length === 1 && performance.now() - startedAt < 5_000) {
      void timed.submit(item(0));
      await nextTurn();
    }
    expect(gate.flushes).toHaveLength(2);
    gate.flushes[1]!.release();
  });
});

describe('a coalescer', () => {
  it('sends a lone request at once and gathers those that arrive meanwhile', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate));
    const first = coalescer.submit(item(1));
    await nextTurn();
    expect(gate.flushes.map((f) => f.items.length)).toEqual([1]);
    const others = [2, 3, 4].map((id) => coalescer.submit(item(id)));
    await nextTurn();
    expect(gate.flushes).toHaveLength(1);
    gate.flushes[0]!.release();
    expect(await first).toBe(1);
    await nextTurn();
    gate.flushes[1]!.release();
    expect(await Promise.all(others)).toEqual([2, 3, 4]);
    expect(gate.flushes[1]!.items.map((i) => i.id)).toEqual([2, 3, 4]);
  });

  it('starts another flush beside a running one only for enough weight', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate, { parallel: 2 }));
    void coalescer.submit(item(1));
    await nextTurn();
    void coalescer.submit(item(2, 9));
    await nextTurn();
    expect(gate.flushes).toHaveLength(1);
    void coalescer.submit(item(3, 1));
    await nextTurn();
    expect(gate.flushes).toHaveLength(2);
  });

  it('accepts a single request that exceeds the weight of a flush', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate, { maxWeight: 5 }));
    const answers = [item(1, 4), item(2, 50), item(3, 4)].map((i) => coalescer.submit(i));
    for (let i = 0; i < 3; i++) {
      await nextTurn();
      gate.flushes[i]!.release();
    }
    expect(await Promise.all(answers)).toEqual([1, 2, 3]);
    expect(gate.flushes.map((f) => f.items.map((i) => i.id))).toEqual([[1], [2], [3]]);
  });

  it('passes an error only to its request, and a rejection to all requests of that flush and no others', async () => {
    const gate = createGate((i) => (i.id === 2 ? new RangeError('two') : i.id));
    const coalescer = createCoalescer(options(gate));
    const answers = [1, 2, 3].map((id) => coalescer.submit(item(id)));
    await nextTurn();
    const later = coalescer.submit(item(4));
    gate.flushes[0]!.release();
    expect(await Promise.allSettled(answers)).toMatchObject([
      { value: 1 },
      { reason: { message: 'two' } },
      { value: 3 },
    ]);
    gate.flushes[1]!.fail(new Error('all'));
    await expect(later).rejects.toThrow('all');
    const after = coalescer.submit(item(5));
    await nextTurn();
    gate.flushes[2]!.release();
    expect(await after).toBe(5);
  });

  it('survives a flush that throws synchronously', async () => {
    const coalescer = createCoalescer<Item, number>({
      ...options(createGate()),
      flush() {
        throw new Error('thrown');
      },
    });
    await expect(coalescer.submit(item(1))).rejects.toThrow('thrown');
    await expect(coalescer.submit(item(2))).rejects.toThrow('thrown');
    await coalescer.drain();
  });

  it('refuses requests beyond its weight and byte limits at once, with a time to retry', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate, { queueLimit: { weight: 10, bytes: 100 } }));
    void coalescer.submit(item(0));
    await nextTurn();
    void coalescer.submit(item(1, 6, 60));
    const refusal = { code: 'unavailable', retryAfterSeconds: 1 };
    await expect(coalescer.submit(item(2, 5, 0))).rejects.toMatchObject(refusal);
    await expect(coalescer.submit(item(3, 1, 41))).rejects.toMatchObject(refusal);
    const fitting = coalescer.submit(item(4, 4, 40));
    expect(coalescer.waiting).toBe(10);
    gate.flushes[0]!.release();
    await nextTurn();
    gate.flushes[1]!.release();
    expect(await fitting).toBe(4);
    expect(coalescer.waiting).toBe(0);
  });

  it('drains waiting requests and flushes in flight', async () => {
    const gate = createGate();
    const coalescer = createCoalescer(options(gate));
    await coalescer.drain();
    void coalescer.submit(item(1));
    await nextTurn();
    void coalescer.submit(item(2));
    let isDrained = false;
    const drained = coalescer.drain().then(() => (isDrained = true));
    gate.flushes[0]!.release();
    await nextTurn();
    expect(isDrained).toBe(false);
    gate.flushes[1]!.release();
    await drained;
  });

  it('answers each request once with its own answer, in order and within its limits, whatever happens', async () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ submit: fc.integer({ min: 1, max: 12 }), bytes: fc.nat(30) }) },
      { weight: 3, arbitrary: fc.record({ release: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ fail: fc.nat(3) }) },
      { weight: 2, arbitrary: fc.constant('turn' as const) },
    );
    const settings = fc.record({
      parallel: fc.integer({ min: 1, max: 3 }),
      fullWeight: fc.integer({ min: 1, max: 15 }),
      maxWeight: fc.integer({ min: 1, max: 20 }),
      queueLimit: fc.record({
        weight: fc.integer({ min: 12, max: 40 }),
        bytes: fc.integer({ min: 30, max: 90 }),
      }),
    });
    await fc.assert(
      fc.asyncProperty(settings, fc.array(step, { maxLength: 60 }), async (given, steps) => {
        const gate = createGate((i) => (i.id % 7 === 3 ? new Error(`own ${i.id}`) : i.id));
        const coalescer = createCoalescer(options(gate, given));
        const settled = new Map<number, string>();
        const refused = new Set<number>();
        const failed = new Set<number>();
        let waitingWeight = 0;
        let waitingBytes = 0;
        const accepted: Item[] = [];
        const countWaiting = () => {
          const taken = new Set(gate.flushes.flatMap((f) => f.items));
          const waiting = accepted.filter((i) => !taken.has(i));
          waitingWeight = waiting.reduce((sum, i) => sum + i.weight, 0);
          waitingBytes = waiting.reduce((sum, i) => sum + i.bytes, 0);
        };
        for (const [id, action] of steps.entries()) {
          if (action === 'turn') await nextTurn();
          else if ('submit' in action) {
            countWaiting();
            expect(coalescer.waiting).toBe(waitingWeight);
            const one = item(id, action.submit, action.bytes);
            const isFull =
              waitingWeight + one.weight > given.queueLimit.weight ||
              waitingBytes + one.bytes > given.queueLimit.bytes;
            if (isFull) refused.add(id);
            else accepted.push(one);
            coalescer.submit(one).then(
              (value) => settled.set(id, `${settled.get(id) ?? ''}value ${value}`),
              (error: Error) => settled.set(id, `${settled.get(id) ?? ''}${error.message}`),
            );
          } else {
            const open = gate.open();
            const flush = open[('release' in action ? action.release : action.fail) % (open.length || 1)];
            if ('release' in action) flush?.release();
            else if (flush) {
              for (const i of flush.items) failed.add(i.id);
              flush.fail(new Error('everybody'));
            }
          }
        }
        const onDrained = vi.fn();
        void coalescer.drain().then(onDrained);
        for (let i = 0; i < 200 && onDrained.mock.calls.length === 0; i++) {
          for (const flush of gate.open()) flush.release();
          await nextTurn();
        }
        expect(onDrained).toHaveBeenCalledOnce();
        expect(gate.flushes.flatMap((f) => f.items)).toEqual(accepted);
        expect(gate.maxRunning).toBeLessThanOrEqual(given.parallel);
        for (const { items } of gate.flushes) {
          const weight = items.reduce((sum, i) => sum + i.weight, 0);
          expect(items.length === 1 || weight <= given.maxWeight).toBe(true);
        }
        for (const { id } of accepted) {
          const own = id % 7 === 3 ? `own ${id}` : `value ${id}`;
          expect(settled.get(id)).toBe(failed.has(id) ? 'everybody' : own);
        }
        for (const id of refused) expect(settled.get(id)).toMatch(/Too many requests/);
        expect(settled.size).toBe(accepted.length + refused.size);
      }),
      { numRuns: 300 },
    );
  });
});
