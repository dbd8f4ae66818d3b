import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import { queueForTraders } from '../../accounts/webhooks/outbox.js';
import type { WorkContext } from '../../core/http/context.js';
import type { FitBook } from '../learning/fits.js';
import type { SourceNames } from '../learning/queries.js';
import type { GateBook } from '../signals/signal.js';
import type { CalibrationStore } from '../snapshot/snapshot.js';
import { readGates } from './gates.js';
import { storeGates } from './queries.js';

/** Notifies webhooks of changes since any instance last judged. */
export const recordGates = (deps: ChangeDeps, sources: SourceNames, book: GateBook): Promise<void> =>
  change(deps, byService, async (tx) => {
    for (const place of await storeGates(tx, sources, book)) {
      const { kind, stationId: station, leadHours, isOpen, n, reason } = book.gates[place]!;
      const data = { kind, station, leadHours, state: isOpen ? 'open' : 'closed', n, reason } as const;
      await queueForTraders(tx, { type: 'signal.gate_changed', data, at: book.madeAt! });
    }
  });

export interface PastFiller {
  /** Resumes an interrupted run. Returns the number of records added. */
  fillIn(
    into: {
      /** With the fits that forecasts would use now. */
      useFits: (fitsAt: (at: Date) => Promise<FitBook>) => Promise<void>;
      recorded: () => Promise<void>;
    },
    signal: AbortSignal,
  ): Promise<number>;
}

export type Judge = ReturnType<typeof createJudge>;

interface JudgeOptions extends Pick<WorkContext, 'db' | 'clock' | 'log'> {
  calibration: CalibrationStore;
  sources: SourceNames;
  /** Undefined if the past cannot be reconstructed. */
  past: PastFiller | undefined;
}

export function createJudge({ db, calibration, sources, clock, log, past }: JudgeOptions) {
  const stopping = new AbortController();
  let isFilled = past === undefined;

  /** Judges from all instances' scored records. */
  async function judge(): Promise<void> {
    const gates = await readGates(db, sources, new Date(clock.now()));
    calibration.replace({ gates });
    // Until the past is filled in, gates open and close because records are missing.
    if (!isFilled) return;
    // The next judgement finds the change again.
    await recordGates({ db, clock }, sources, gates).catch((error: unknown) =>
      log.warn({ err: error }, 'changed gates could not be reported yet'),
    );
  }

  async function fillFrom(past: PastFiller): Promise<void> {
    const made = await past.fillIn(
      {
        async useFits(fitsAt) {
          // Better than none, until the trainer has fits.
          if (calibration.current.fits.fits.length === 0)
            calibration.replace({ fits: await fitsAt(new Date(clock.now())) });
        },
        recorded: judge,
      },
      stopping.signal,
    );
    if (made > 0) log.debug({ made }, 'the forecasts of the last days are filled in');
  }

  async function fill(): Promise<void> {
    try {
      if (past) await fillFrom(past);
      isFilled = true;
      await judge();
    } catch (error) {
      // The next start fills in the rest.
      if (!stopping.signal.aborted) throw error;
    }
  }

  return {
    judge,
    /** Fills in a simulated world's past once, then judges. The caller shares a run. */
    async fillPast(): Promise<void> {
      if (!isFilled) await fill();
    },
    stop: () => stopping.abort(),
  };
}
