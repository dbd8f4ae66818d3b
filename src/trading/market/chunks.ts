/** The items in their order, `size` at a time. */
export function inChunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

/** Works on all items, `width` of them at a time. The first failure ends the others, and rejects. */
export async function inParallel<T, R>(
  items: readonly T[],
  { width, signal }: { width: number; signal: AbortSignal },
  work: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const results: R[] = [];
  let next = 0;
  async function run(): Promise<void> {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at]!, either);
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
    return results;
  } finally {
    failed.abort();
  }
}
