import { targetKey, type Target } from '../market/market.js';
import type { SettledDay } from '../market/source.js';

/** A run of an ensemble for one temperature, without its members. */
export interface KnownRun extends Target {
  modelRunAt: Date;
  fetchedAt: Date;
  members: number;
  /** °F. */
  meanF: number;
  /** Sample variance of the members, °F²; 0 for a single one. */
  varianceF: number;
}

/**
 * What was known at one time. Nothing else is trained on or scored by, and there is no other way to make one than `at`,
 * which leaves out whatever came later: nobody can ask for more.
 */
export class KnownHistory {
  readonly knownAt: Date;
  readonly #runs: readonly KnownRun[];
  readonly #reports: ReadonlyMap<string, SettledDay>;

  private constructor(knownAt: Date, runs: readonly KnownRun[], reports: ReadonlyMap<string, SettledDay>) {
    this.knownAt = knownAt;
    this.#runs = runs;
    this.#reports = reports;
  }

  /**
   * @param runs a run counts once it was started and fetched
   * @param reports of several of a target the one counts that became known last
   */
  static at(
    knownAt: Date,
    { runs, reports }: { runs: readonly KnownRun[]; reports: readonly SettledDay[] },
  ): KnownHistory {
    const newest = new Map<string, SettledDay>();
    // As numbers: comparing dates themselves takes ten times as long, and there are thousands.
    const atMs = knownAt.getTime();
    for (const report of reports) {
      if (report.knownAt.getTime() > atMs) continue;
      const key = targetKey(report);
      const found = newest.get(key);
      if (!found || report.knownAt.getTime() > found.knownAt.getTime()) newest.set(key, report);
    }
    const started = runs.filter(
      ({ modelRunAt, fetchedAt }) => modelRunAt.getTime() <= atMs && fetchedAt.getTime() <= atMs,
    );
    return new KnownHistory(knownAt, started, newest);
  }

  get runs(): readonly KnownRun[] {
    return this.#runs;
  }

  /** What was reported; undefined while nothing was known. */
  reportOf(target: Target): SettledDay | undefined {
    return this.#reports.get(targetKey(target));
  }

  /** The newest report of each target. */
  get reports(): Iterable<SettledDay> {
    return this.#reports.values();
  }
}
