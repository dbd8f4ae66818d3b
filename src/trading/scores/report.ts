import { createCachedAnswer, type Sent } from '../../core/http/cached-answer.js';
import { readScores, readVersion, type ScoresAsked, type ScoresDeps } from './scores.js';

/** However many ask, the database says at most once in this time for each kind, station and lead whether something is new. */
const KEPT_MS = 30_000;

/** The answer with the scores of a kind, of a station or of all, at a lead or at all; added up anew only when something has changed. */
export type ScoreReport = (asked: ScoresAsked) => Promise<Sent>;

interface Kept extends Sent {
  version: string;
}

export function createScoreReport(deps: ScoresDeps): ScoreReport {
  const { clock, calibration } = deps;
  const kept = new Map<string, { madeMs: number; answer: Promise<Kept> }>();

  async function make(asked: ScoresAsked, before: Promise<Kept> | undefined): Promise<Kept> {
    const version = await readVersion(deps, asked);
    const last = await before;
    if (last?.version === version) {
      const gatesJudgedAt = calibration.current.gates.madeAt?.toISOString() ?? null;
      return { ...last, end: endOf({ gatesJudgedAt, asOf: new Date(clock.now()).toISOString() }) };
    }
    const { asOf, gatesJudgedAt, ...rest } = await readScores(deps, asked);
    const answer = createCachedAnswer(JSON.stringify(rest).slice(0, -1));
    return { answer, end: endOf({ gatesJudgedAt, asOf }), version };
  }

  return (asked) => {
    const key = `${asked.kind} ${asked.station ?? ''} ${asked.leadHours ?? ''}`;
    const found = kept.get(key);
    if (found && clock.now() - found.madeMs < KEPT_MS) return found.answer;
    const answer = make(asked, found?.answer);
    kept.set(key, { madeMs: clock.now(), answer });
    // A failure is answered to those who wait for it, and not kept for the next.
    answer.catch(() => kept.delete(key));
    return answer;
  };
}

/** The times come last: without them the answer is the same, and has the same ETag, until something settles. */
const endOf = (times: { gatesJudgedAt: string | null; asOf: string }): string =>
  `,${JSON.stringify(times).slice(1)}`;
