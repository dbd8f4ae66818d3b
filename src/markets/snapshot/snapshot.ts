import type { Metrics } from '../../core/metrics.js';
import { noFits, type FitBook } from '../learning/fits.js';
import type { StationForecast } from '../learning/forecast.js';
import type { MarketEvent } from '../market/event.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketData, VenueNote } from '../market/source.js';
import { noGates, type GateBook, type SignalReport } from '../signals/signal.js';

/** Immutable: jobs replace the object and refreshes read it. */
export interface Calibration {
  fits: FitBook;
  gates: GateBook;
}

export const nothingLearned: Calibration = Object.freeze({ fits: noFits, gates: noGates });

export type CalibrationStore = ReturnType<typeof createCalibrationStore>;

export function createCalibrationStore(
  initial: Calibration = nothingLearned,
  metrics?: Pick<Metrics, 'fitsTime' | 'openGates'>,
) {
  let current = initial;
  return {
    get current() {
      return current;
    },
    replace(part: Partial<Calibration>): void {
      current = Object.freeze({ ...current, ...part });
      metrics?.fitsTime.set((current.fits.madeAt?.getTime() ?? 0) / 1000);
      metrics?.openGates.set(current.gates.gates.filter(({ isOpen }) => isOpen).length);
    },
  };
}

export interface SourceState {
  part: 'markets' | 'forecasts';
  name: string;
  /** `unexpected`: an answer that cannot be trusted; trading is closed until a good one arrives. */
  state: 'ok' | 'failing' | 'unexpected' | 'waiting';
  fetchedAt: Date | null;
  failingSince: Date | null;
  problem: string | null;
  /** Unreadable parts of the last good answer, and parts without a known place. */
  notes: readonly VenueNote[];
}

/** The problem may name internal hosts, and streams would repeat the notes with every change. */
export const toStateJson = ({ part, name, state, fetchedAt, failingSince }: Omit<SourceState, 'notes'>) => ({
  part,
  name,
  state,
  fetchedAt: fetchedAt?.toISOString() ?? null,
  failingSince: failingSince?.toISOString() ?? null,
});

/** Immutable: each refresh replaces it, and so does each change in between. */
export interface Snapshot {
  /** Counts within this process. */
  sequence: number;
  /** When the markets were fetched. Ages are relative to it. */
  asOf: Date;
  marketSource: string;
  data: MarketData;
  markets: ReadonlyMap<string, ListedMarket>;
  events: readonly MarketEvent[];
  /** By station. */
  forecasts: ReadonlyMap<string, StationForecast>;
  gates: GateBook;
  signals: SignalReport;
  sources: readonly SourceState[];
  /** Set if prices or books have changed since the last refresh. */
  refreshed?: Snapshot;
}

/** Returns the notes on one station's reports. */
export const notesOn = ({ sources }: Pick<Snapshot, 'sources'>, stationId: string): VenueNote[] =>
  sources.flatMap(({ notes }) =>
    notes.filter(({ kind, name }) => kind === 'doubtful_report' && name === stationId),
  );

/** Returns the last refresh's snapshot, whose books underlie the forecasts and signals. */
export const refreshOf = (snapshot: Snapshot): Snapshot => snapshot.refreshed ?? snapshot;

export type SnapshotStore = ReturnType<typeof createSnapshotStore>;
export type SnapshotReads = Pick<SnapshotStore, 'current' | 'sources'>;

export function createSnapshotStore() {
  let current: Snapshot | undefined;
  let sources: readonly SourceState[] = [];
  const listeners = new Set<(snapshot: Snapshot, before: Snapshot | undefined) => void>();
  return {
    get current() {
      return current;
    },
    /** Complete even before the first snapshot. */
    get sources() {
      return sources;
    },
    replace(snapshot: Snapshot): void {
      const before = current;
      current = snapshot;
      ({ sources } = snapshot);
      for (const listener of listeners) listener(snapshot, before);
    },
    setSources(states: readonly SourceState[]): void {
      sources = states;
    },
    /** After each replacement. The returned function unsubscribes. */
    subscribe(listener: (snapshot: Snapshot, before: Snapshot | undefined) => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

export const ageOf = ({ asOf }: Pick<Snapshot, 'asOf'>, nowMs: number): number =>
  Math.max(0, nowMs - asOf.getTime());
