/** The items by key, in the order in which they come. */
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

/** What was made for the keys that were asked for lately. Making it anew gives the same: this only saves the time. */
export function createRecall<T>(most: number): (key: string | number, make: () => T) => T {
  let [young, old] = [new Map<string | number, T>(), new Map<string | number, T>()];
  return (key, make) => {
    const found = young.get(key);
    if (found !== undefined) return found;
    const value = old.get(key) ?? make();
    // What is not asked for again before the young ones are full is forgotten with the old ones.
    if (young.size >= most) [young, old] = [new Map(), young];
    young.set(key, value);
    return value;
  };
}
