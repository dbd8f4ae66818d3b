import { randomInt } from 'node:crypto';
import { v7 as uuid } from 'uuid';

/** Room for more ids in a millisecond than one process makes. */
const FIRST_SEQUENCES = 2 ** 30;
let last = { msecs: 0, seq: 0 };

/** A UUIDv7. Those of one process sort as they were made, also within one millisecond. */
export function newId(nowMs: number): string {
  last = { msecs: nowMs, seq: last.msecs === nowMs ? last.seq + 1 : randomInt(FIRST_SEQUENCES) };
  return uuid(last);
}
