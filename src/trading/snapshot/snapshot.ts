import type { StationForecast } from '../forecast/forecast.js';
import type { MarketEvent } from '../market/event.js';
import type { ListedMarket } from '../market/market.js';
import type { VenueNote } from '../market/notes.js';
import type { MarketData } from '../market/source.js';
import type { GateBook } from '../signals/gate.js';
import type { SignalReport } from '../signals/signal.js';

/** How long data count as current. */
export const TIME_TO_LIVE_MS = 30_000;
/** Nobody trades on data older than this. */
export const MAX_TRADING_AGE_MS = 2 * TIME_TO_LIVE_MS;

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
