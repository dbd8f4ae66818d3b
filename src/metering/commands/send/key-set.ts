import { hash } from 'node:crypto';

/** 96 bits of each key's SHA-256, in 16 to 32 bytes: a Set takes ten times as much memory. */
export function createKeySet() {
  const width = 3;
  let slots = new Uint32Array(width * 1024);
  let size = 0;

  /** The key's slot, or the free one where it belongs. */
  function find(words: Uint32Array): number {
    const count = slots.length / width;
    for (let i = words[0]! % count; ; i = (i + 1) % count) {
      const at = i * width;
      if (slots[at] === 0 || words.every((word, j) => slots[at + j] === word)) return at;
    }
  }

  function grow(): void {
    const before = slots;
    slots = new Uint32Array(before.length * 2);
    for (let at = 0; at < before.length; at += width) {
      const words = before.subarray(at, at + width);
      if (words[0] !== 0) slots.set(words, find(words));
    }
  }

  return {
    add(key: string): boolean {
      const words = new Uint32Array(
        Uint8Array.from(hash('sha256', key, 'buffer').subarray(0, 4 * width)).buffer,
      );
      // Zero marks a free slot.
      words[0] ||= 1;
      const at = find(words);
      if (slots[at] !== 0) return false;
      slots.set(words, at);
      if (++size * width * 4 > slots.length * 3) grow();
      return true;
    },
  };
}
