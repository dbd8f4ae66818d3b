import { once } from 'node:events';
import type { WorkContext } from '../../core/http/context.js';
import type { Metrics } from '../../core/metrics.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import type { VenueNote } from '../market/source.js';
import type { SourceState } from './snapshot.js';

interface SourceData {
  fetchedAt: Date;
  notes?: readonly VenueNote[];
}

export type SourcePart<T extends SourceData> = ReturnType<typeof createSourcePart<T>>;

interface SourcePartDeps extends Pick<WorkContext, 'clock' | 'log'> {
  metrics: Pick<Metrics, 'refreshes' | 'refreshSeconds' | 'sourceNotes'>;
  timeOutMs: number;
  stopping: AbortSignal;
}

export function createSourcePart<T extends SourceData>(
  part: SourceState['part'],
  source: { readonly name: string; read(signal: AbortSignal): Promise<T> },
  { clock, log, metrics, timeOutMs, stopping }: SourcePartDeps,
) {
  let data: T | undefined;
  let state: SourceState = {
    part,
    name: source.name,
    state: 'waiting',
    fetchedAt: null,
    failingSince: null,
    problem: null,
    notes: [],
  };

  /** Reads within the time limit. A late answer is dropped, even if the source ignores its signal. */
  async function read(): Promise<T> {
    const ending = new AbortController();
    const giveUp = () => ending.abort(new Error(`no answer within ${timeOutMs} ms`));
    const stop = () => ending.abort(stopping.reason);
    const timer = setTimeout(giveUp, timeOutMs);
    stopping.addEventListener('abort', stop);
    try {
      stopping.throwIfAborted();
      const ended = once(ending.signal, 'abort').then(() => Promise.reject(ending.signal.reason as Error));
      return await Promise.race([source.read(ending.signal), ended]);
    } finally {
      clearTimeout(timer);
      stopping.removeEventListener('abort', stop);
      ending.abort();
    }
  }

  let shown: readonly VenueNote[] = [];
  function showNotes(): void {
    for (const { kind, name } of shown) metrics.sourceNotes.remove({ part, kind, name });
    shown = state.notes;
    for (const { kind, name, count } of shown) metrics.sourceNotes.set({ part, kind, name }, count);
  }

  return {
    get data() {
      return data;
    },
    get state() {
      return state;
    },
    /** Never rejects: after a failure, the data stays the same and the state changes. */
    async ask(): Promise<void> {
      const startedAt = performance.now();
      try {
        data = await read();
        if (state.failingSince) log.info({ source: source.name, part }, 'the source responds again');
        const { fetchedAt, notes = [] } = data;
        state = { ...state, state: 'ok', fetchedAt, failingSince: null, problem: null, notes };
        showNotes();
      } catch (error) {
        if (stopping.aborted) return;
        log.warn({ err: error, source: source.name, part }, 'a source failed; its last good data is kept');
        state = {
          ...state,
          state: error instanceof UnexpectedAnswerError ? 'unexpected' : 'failing',
          failingSince: state.failingSince ?? new Date(clock.now()),
          problem: error instanceof Error ? error.message.slice(0, 300) : 'it failed',
        };
      }
      metrics.refreshes.inc({ part, outcome: state.state });
      metrics.refreshSeconds.observe({ part }, (performance.now() - startedAt) / 1000);
    },
  };
}
