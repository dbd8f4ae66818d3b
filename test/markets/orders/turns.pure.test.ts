import { describe, expect, it } from 'vitest';
import { createTurns } from '../../../src/markets/orders/turns.js';

function setUp(options: { parallel?: number; maxWaiting?: number } = {}) {
  let now = 0;
  const turns = createTurns({
    clock: { now: () => now },
    parallel: 2,
    maxWaiting: 100,
    maxWaitMs: 1_000,
    ...options,
  });
  const log: string[] = [];
  const ends = new Map<string, () => void>();
  const take = (key: string, name: string) =>
    turns.take(key, async () => {
      log.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  return {
    take,
    log,
    advance: (ms: number) => (now += ms),
    end: async (name: string) => {
      ends.get(name)!();
      await new Promise(setImmediate);
    },
  };
}

describe('turns', () => {
  it('run one at a time per key, in call order, and a busy key does not hold up others', async () => {
    const { take, log, end } = setUp();
    const all = [take('a', 'a1'), take('a', 'a2'), take('b', 'b1'), take('c', 'c1')];
    await new Promise(setImmediate);
    expect(log).toEqual(['a1', 'b1']);
    await end('b1');
    expect(log).toEqual(['a1', 'b1', 'c1']);
    await end('a1');
    await end('c1');
    await end('a2');
    expect(await Promise.all(all)).toEqual(['a1', 'a2', 'b1', 'c1']);
  });

  it('continue after a failure', async () => {
    const { take, end } = setUp({ parallel: 1 });
    const turns = createTurns({ clock: { now: () => 0 }, parallel: 1, maxWaiting: 1, maxWaitMs: 1 });
    await expect(turns.take('a', () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await turns.take('a', () => Promise.resolve(1))).toBe(1);
    const later = take('a', 'a1');
    await new Promise(setImmediate);
    await end('a1');
    expect(await later).toBe('a1');
  });

  it('are refused if too many wait or one waits too long, and refused work never ran', async () => {
    const { take, log, end, advance } = setUp({ parallel: 1, maxWaiting: 1 });
    const first = take('a', 'a1');
    const second = take('a', 'a2');
    await expect(take('b', 'b1')).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 1 });
    advance(1_001);
    const refused = expect(second).rejects.toMatchObject({ code: 'unavailable' });
    await end('a1');
    await refused;
    expect(await first).toBe('a1');
    expect(log).toEqual(['a1']);
  });
});
