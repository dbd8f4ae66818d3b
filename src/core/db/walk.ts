export const BATCH = 500;
const BATCHES_PER_RUN = 20;
/** A stopping instance waits for the run to end. */
const MAX_RUN_MS = 15_000;

export const FIRST = '00000000-0000-0000-0000-000000000000';

/** If a run reaches its limit, the next run continues from there. */
export function walk<Row, Place>(
  first: Place,
  read: (after: Place) => Promise<Row[]>,
  placeOf: (row: Row) => Place,
  handle: (row: Row) => Promise<void>,
): () => Promise<void> {
  let after = first;
  return async () => {
    const until = performance.now() + MAX_RUN_MS;
    for (let batch = 0; batch < BATCHES_PER_RUN; batch++) {
      const rows = await read(after);
      for (const row of rows) {
        await handle(row);
        if (performance.now() < until) continue;
        after = placeOf(row);
        return;
      }
      after = rows.length < BATCH ? first : placeOf(rows.at(-1)!);
      if (after === first) return;
    }
  };
}
