export function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** A cache of recently used values. Values can be recomputed, so evicting one costs only time. */
export function createRecall<T>(most: number): (key: string | number, make: () => T) => T {
  let [young, old] = [new Map<string | number, T>(), new Map<string | number, T>()];
  return (key, make) => {
    const found = young.get(key);
    if (found !== undefined) return found;
    const value = old.get(key) ?? make();
    // Entries not used again before the young generation is full are evicted with the old one.
    if (young.size >= most) [young, old] = [new Map(), young];
    young.set(key, value);
    return value;
  };
}
