import { pino } from 'pino';
import type { StationForecast } from '../../src/markets/learning/forecast.js';
import type { MarketEvent } from '../../src/markets/market/event.js';
import type { MarketData } from '../../src/markets/market/source.js';
import type { GateBook } from '../../src/markets/signals/signal.js';
import { buildSnapshot, type SnapshotInputs } from '../../src/markets/snapshot/build-snapshot.js';
import type { Snapshot } from '../../src/markets/snapshot/snapshot.js';
import { readTape, TapeError } from '../../src/markets/tape/reader.js';
import type { TapeHeader } from '../../src/markets/tape/format.js';
import type { MarkableFill } from '../../src/markets/execution/marker.js';
import { createLookBack, type FillMark } from './look-back.js';
import { calibratedModel } from '../../src/markets/learning/calibrated.js';

/** Only data known at that time. */
export interface PointInTime {
  at: Date;
  data: MarketData;
  events: readonly MarketEvent[];
  /** Empty at times that only settle events. */
  due: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  gates: GateBook;
}

/** In chronological order. */
export interface Feed {
  name: string;
  /** Undefined if unknown. */
  count: number | undefined;
  /** After a purchase, even if the book changes. Default: until it changes. */
  takenMs?: number;
  points: () => AsyncIterable<PointInTime> | Iterable<PointInTime>;
  /** `fills` must be in chronological order; the marks are in the same order. */
  lookBack(fills: readonly MarkableFill[]): Promise<FillMark[]>;
}

const log = pino({ level: 'silent' });

/**
 * With the current model's forecasts and the gates on the tape. Rejects with TapeError if a file is not a tape.
 * @param everyMs in tape time
 */
export function tapeFeed(files: readonly string[], everyMs: number): Feed {
  return {
    name: `tape ${files.join(', ')}`,
    count: undefined,
    points: () => play(files, everyMs),
    async lookBack(fills) {
      const found = createLookBack(fills);
      for (const file of files)
        for await (const { inputs, prints } of readTape(file)) {
          found.see(inputs.at, inputs.data);
          for (const read of prints) found.read(read);
        }
      return found.marks();
    },
  };
}

async function* play(files: readonly string[], everyMs: number): AsyncGenerator<PointInTime> {
  let before: Snapshot | undefined;
  let nextMs = -Infinity;
  for (const [i, file] of files.entries()) {
    const end = before?.asOf;
    for await (const { header, inputs, record } of readTape(file)) {
      if (end && inputs.at < end)
        throw new TapeError(
          `${file}, record ${record}: ${inputs.at.toISOString()} is before the end of ${files[i - 1]}; give the tapes in chronological order`,
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
    throw new TapeError(`${place}: no snapshot can be built from it: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
