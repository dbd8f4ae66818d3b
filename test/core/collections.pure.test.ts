import { describe, expect, it } from 'vitest';
import { createRecentMap } from '../../src/core/collections.js';

describe('createRecentMap', () => {
  it('keeps the half of its entries used last, and never more than its limit', () => {
    const recent = createRecentMap<number, number>(10);
    recent.set(-1, -1);
    for (let key = 0; key < 100; key++) {
      recent.set(key, key);
      expect(recent.get(-1)).toBe(-1);
    }
    const kept = Array.from({ length: 100 }, (_, key) => key).filter((key) => recent.get(key) === key);
    expect(kept).toEqual(expect.arrayContaining([96, 97, 98, 99]));
    expect(kept.length).toBeLessThan(10);
  });

  it('forgets a deleted entry for good', () => {
    const recent = createRecentMap<string, number>(2);
    recent.set('a', 1);
    recent.set('b', 2);
    recent.delete('a');
    expect(recent.get('a')).toBeUndefined();
    expect(recent.get('b')).toBe(2);
  });
});
