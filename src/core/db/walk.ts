export const BATCH = 500;
const BATCHES_PER_RUN = 20;

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
    for (let batch = 0; batch < BATCHES_PER_RUN; batch++) {
      const rows = await read(after);
      for (const row of rows) await handle(row);
      after = rows.length < BATCH ? first : placeOf(rows.at(-1)!);
      if (after === first) return;
    }
  };
}
