import { pino } from 'pino';
import { buildSnapshot, type SnapshotInputs } from '../trading/snapshot/build-snapshot.js';
import { calibratedModel } from '../trading/forecast/calibrated.js';
import type { Snapshot } from '../trading/snapshot/snapshot.js';
import { readTape, TapeError } from '../trading/tape/reader.js';
import type { TapeHeader } from '../trading/tape/tape.js';
import type { Moment, MomentSource } from './moment.js';

const log = pino({ level: 'silent' });

export interface TapeOptions {
  /** One after the other. */
  files: readonly string[];
  /** From one decision to the next, of the tape's time. */
  everyMs: number;
}

/**
 * The moments of tapes: forecasts are made of what was taped by the model of today, gates are those of then. Rejects with
 * TapeError for what is no tape.
 */
export function momentsOfTapes({ files, everyMs }: TapeOptions): MomentSource {
  return { name: `tape ${files.join(', ')}`, count: undefined, moments: () => play(files, everyMs) };
}

async function* play(files: readonly string[], everyMs: number): AsyncGenerator<Moment> {
  let before: Snapshot | undefined;
  let nextMs = -Infinity;
  for (const [i, file] of files.entries()) {
    const end = before?.asOf;
    for await (const { header, inputs, record } of readTape(file)) {
      if (end && inputs.at < end)
        throw new TapeError(
          `${file}, record ${record}: ${inputs.at.toISOString()} is before the end of ${files[i - 1]}; tapes are given in the order of time`,
        );
      if (inputs.at.getTime() < nextMs) continue;
      nextMs = inputs.at.getTime() + everyMs;
      before = snapshotOf(inputs, header, before, `${file}, record ${record}`);
      const { data, events, forecasts, gates } = before;
      yield { at: inputs.at, data, events, due: events, forecasts, gates };
    }
  }
}

function snapshotOf(
  inputs: SnapshotInputs,
  header: TapeHeader,
  before: Snapshot | undefined,
  place: string,
): Snapshot {
  try {
    return buildSnapshot(inputs, { ...header, model: calibratedModel }, before, log);
  } catch (error) {
    throw new TapeError(`${place}: no snapshot can be made of it: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
