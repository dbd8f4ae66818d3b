import { WeatherUnavailableError } from '../forecast/read-json.js';
import { VenueUnavailableError } from '../venue/kalshi-client.js';

const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 5_000;
/** A service that asks for more than this is asked again another day. */
const LONGEST_PAUSE_MS = 15 * 60_000;

export interface Patience {
  /** Rejects when the signal aborts. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Between 0 and 1: pauses differ, so that several who wait do not come back at once. */
  random: () => number;
  /** Told before each pause. */
  note: (text: string) => void;
}

/**
 * Asks again where a service is busy or fails, after the time that it names or a growing one, five times in all. Whatever else
 * goes wrong would go wrong again. An abort ends a pause, not a question.
 */
export async function askPatiently<T>(
  ask: () => Promise<T>,
  { sleep, random, note }: Patience,
  stop: AbortSignal,
): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await ask();
    } catch (error) {
      const isPassing = error instanceof WeatherUnavailableError || error instanceof VenueUnavailableError;
      if (!isPassing || tried === ATTEMPTS) throw error;
      const grown = FIRST_PAUSE_MS * 2 ** (tried - 1) * (0.75 + 0.5 * random());
      const told = error instanceof WeatherUnavailableError ? error.retryAfterMs : undefined;
      const pauseMs = Math.ceil(told ?? grown);
      if (pauseMs > LONGEST_PAUSE_MS) throw error;
      note(`${error.message}. Asking again in ${Math.ceil(pauseMs / 1000)} s.`);
      await sleep(pauseMs, stop);
    }
  }
}
