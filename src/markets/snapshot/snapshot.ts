import type { Metrics } from '../../core/metrics.js';
import { noFits, type FitBook } from '../learning/fits.js';
import type { StationForecast } from '../learning/forecast.js';
import type { MarketEvent } from '../market/event.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketData, VenueNote } from '../market/source.js';
import { noGates, type GateBook, type SignalReport } from '../signals/signal.js';

/** What has been learned of the past. Immutable; jobs put a new one in its place, refreshes read it. */
export interface Calibration {
  fits: FitBook;
  gates: GateBook;
}

export const nothingLearned: Calibration = Object.freeze({ fits: noFits, gates: noGates });

export interface CalibrationStore {
  readonly current: Calibration;
  replace(part: Partial<Calibration>): void;
}

/** @param metrics left out: none are kept */
export function createCalibrationStore(
  initial: Calibration = nothingLearned,
  metrics?: Pick<Metrics, 'fitsTime' | 'openGates'>,
): CalibrationStore {
  let current = initial;
  return {
    get current() {
      return current;
    },
    replace(part) {
      current = Object.freeze({ ...current, ...part });
      metrics?.fitsTime.set((current.fits.madeAt?.getTime() ?? 0) / 1000);
      metrics?.openGates.set(current.gates.gates.filter(({ isOpen }) => isOpen).length);
    },
  };
}

/** How things stand with one source as of the last refresh. */
export interface SourceState {
  part: 'markets' | 'forecasts';
  name: string;
  /** `unexpected`: it answered with something that cannot be trusted; trading is closed until it does again. */
  state: 'ok' | 'failing' | 'unexpected' | 'waiting';
  /** Of its last good answer. */
  fetchedAt: Date | null;
  failingSince: Date | null;
  /** What was wrong the last time. */
  problem: string | null;
  /** What of its last good answer could not be read or placed. */
  notes: readonly VenueNote[];
}

/** As readers are told. What went wrong is for the log: it may name internal hosts. The notes are not for a stream, which tells it with every change. */
export const toStateJson = ({ part, name, state, fetchedAt, failingSince }: Omit<SourceState, 'notes'>) => ({
  part,
  name,
  state,
  fetchedAt: fetchedAt?.toISOString() ?? null,
  failingSince: failingSince?.toISOString() ?? null,
});

/** Markets, forecasts and signals that belong together. Never changed: each refresh, and each change between two, puts a new one in its place. */
export interface Snapshot {
  /** 1, 2, 3 … within this process. */
  sequence: number;
  /** When the markets were fetched: what everything else is measured from. */
  asOf: Date;
  marketSource: string;
  data: MarketData;
  markets: ReadonlyMap<string, ListedMarket>;
  events: readonly MarketEvent[];
  /** By station. */
  forecasts: ReadonlyMap<string, StationForecast>;
  /** What the signals were let through or withheld by. */
  gates: GateBook;
  signals: SignalReport;
  sources: readonly SourceState[];
  /** The refresh's own snapshot, of which this one differs in prices and books alone; left out: this is a refresh's own. */
  refreshed?: Snapshot;
}

/** The snapshot of the last refresh: forecasts and signals are of its books. */
export const refreshOf = (snapshot: Snapshot): Snapshot => snapshot.refreshed ?? snapshot;

export interface SnapshotStore {
  /** Undefined until the first refresh has succeeded. */
  readonly current: Snapshot | undefined;
  /** Of every source, also before there is a snapshot. */
  readonly sources: readonly SourceState[];
  replace(snapshot: Snapshot): void;
  setSources(sources: readonly SourceState[]): void;
  /** Calls back after each replacement, until the returned function is called. */
  subscribe(listener: (snapshot: Snapshot, before: Snapshot | undefined) => void): () => void;
}

export function createSnapshotStore(): SnapshotStore {
  let current: Snapshot | undefined;
  let sources: readonly SourceState[] = [];
  const listeners = new Set<(snapshot: Snapshot, before: Snapshot | undefined) => void>();
  return {
    get current() {
      return current;
    },
    get sources() {
      return sources;
    },
    replace(snapshot) {
      const before = current;
      current = snapshot;
      ({ sources } = snapshot);
      for (const listener of listeners) listener(snapshot, before);
    },
    setSources(states) {
      sources = states;
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** How old the markets of a snapshot are. */
export const ageOf = ({ asOf }: Pick<Snapshot, 'asOf'>, nowMs: number): number =>
  Math.max(0, nowMs - asOf.getTime());
