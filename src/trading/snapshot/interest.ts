import type { Logger } from 'pino';
import type { Database } from '../../core/db/client.js';
import { listHeldTickers } from '../settlement/queries.js';
import type { Snapshot } from './snapshot.js';

/** More markets than this are never preferred: then it would be no preference. */
const MAX_HELD = 200;

/** Markets in which somebody holds something, as of the last time this was asked; each asking looks anew behind it. */
export function createHeldTickers({ db, log }: { db: Database; log: Pick<Logger, 'warn'> }) {
  let tickers: readonly string[] = [];
  let asking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    try {
      tickers = (await listHeldTickers(db.orm, '', MAX_HELD)).map(({ ticker }) => ticker);
    } catch (error) {
      // The order in which books are read is no reason to fail.
      log.warn({ err: error }, 'what is held could not be looked up: books are read in the order of before');
    } finally {
      asking = undefined;
    }
  }

  return {
    current(): readonly string[] {
      asking ??= ask();
      return tickers;
    },
  };
}

/** Markets in which something is worth doing. */
export const signalTickers = (snapshot: Snapshot | undefined): string[] =>
  (snapshot?.signals.events ?? []).flatMap(({ signals }) => signals.map(({ market }) => market.ticker));
