import type { Clock } from '../../clock.js';
import type { Database } from '../../db/client.js';
import { createCachedAnswer, type Sent } from '../../http/cached-answer.js';
import { listScoredRecords, meanScores, type Sources, type Wanted } from './queries.js';
import { toScoresAnswer } from './view.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const WINDOW_DAYS = 90;
const MAX_RECORDS = 100;
/** Scores change a few times a day: however many ask, the database adds up once in this time for each station. */
const KEPT_MS = 30_000;

/** The answer with the scores of one station or of all, added up anew at most every half minute. */
export type ScoreReport = (station: string | undefined) => Promise<Sent>;

export function createScoreReport({
  db,
  clock,
  sources,
}: {
  db: Database;
  clock: Clock;
  sources: Sources;
}): ScoreReport {
  const kept = new Map<string | undefined, { madeMs: number; answer: Promise<Sent> }>();

  async function make(station: string | undefined): Promise<Sent> {
    const asOf = new Date(clock.now());
    const since = new Date(asOf.getTime() - WINDOW_DAYS * DAY_MS).toISOString().slice(0, 10);
    const wanted: Wanted = { ...sources, method: 'raw_ensemble', since, station };
    const [means, records] = await Promise.all([
      meanScores(db.orm, wanted),
      listScoredRecords(db.orm, wanted, MAX_RECORDS),
    ]);
    const { asOf: time, ...rest } = toScoresAnswer({
      asOf,
      wanted,
      windowDays: WINDOW_DAYS,
      means,
      records,
    });
    // The time comes last: without it the answer is the same, and has the same ETag, until something settles.
    const answer = createCachedAnswer(JSON.stringify(rest).slice(0, -1));
    return { answer, end: `,"asOf":"${time}"}` };
  }

  return (station) => {
    const found = kept.get(station);
    if (found && clock.now() - found.madeMs < KEPT_MS) return found.answer;
    const answer = make(station);
    kept.set(station, { madeMs: clock.now(), answer });
    // A failure is answered to those who wait for it, and not kept for the next.
    answer.catch(() => kept.delete(station));
    return answer;
  };
}
