export const BATCH = 500;
const BATCHES_PER_RUN = 20;
/** A stopping instance waits for the run to end. */
const MAX_RUN_MS = 15_000;

export const FIRST = '00000000-0000-0000-0000-000000000000';

/** The next run continues where a run reached its limit. A failing row stops no other; the run fails at its end. */
export function walk<Row, Place>(
  first: Place,
  read: (after: Place) => Promise<Row[]>,
  placeOf: (row: Row) => Place,
  handle: (row: Row) => Promise<void>,
): () => Promise<void> {
  let after = first;
  return async () => {
    const until = performance.now() + MAX_RUN_MS;
    const isOver = () => performance.now() >= until;
    const errors: unknown[] = [];
    for (let batch = 0; batch < BATCHES_PER_RUN && !isOver(); batch++) {
      const rows = await read(after);
      for (const row of rows) {
        await handle(row).catch((error) => errors.push(error));
        after = placeOf(row);
        if (isOver()) break;
      }
      if (rows.length < BATCH && !isOver()) {
        after = first;
        break;
      }
    }
    if (errors.length > 0) throw errors[0];
  };
}
