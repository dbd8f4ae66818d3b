/** When and how subscriptions whose books are in doubt are mended: at once, and then ever more rarely while it does not help. */
export interface Repairs {
  /** Snapshots are on their way: nothing is asked for until they had time to come. */
  begin(sid: number): void;
  /** The sequence cannot be followed any further. */
  condemn(sid: number): void;
  forget(sid: number): void;
  /** What to do now; undefined: nothing, or not yet. */
  next(sid: number, markets: { doubtful: number; all: number }): 'snapshot' | 'resubscribe' | undefined;
}

interface Repair {
  attempts: number;
  dueAt: number;
  isCondemned: boolean;
}

const MAX_PAUSE_MS = 60_000;
/** Asking for snapshots of all markets has not helped so often. */
const MAX_SNAPSHOTS = 3;

/** @param pauseMs before the second attempt; it doubles */
export function createRepairs(pauseMs: number, now: () => number = () => performance.now()): Repairs {
  const bySid = new Map<number, Repair>();

  function of(sid: number): Repair {
    const known = bySid.get(sid) ?? { attempts: 0, dueAt: 0, isCondemned: false };
    bySid.set(sid, known);
    return known;
  }

  return {
    begin(sid) {
      const repair = of(sid);
      repair.dueAt = Math.max(repair.dueAt, now() + 2 * pauseMs);
    },
    condemn: (sid) => void (of(sid).isCondemned = true),
    forget: (sid) => void bySid.delete(sid),
    next(sid, { doubtful, all }) {
      const repair = of(sid);
      const at = now();
      if (doubtful === 0 && !repair.isCondemned) {
        // What has been well for a minute may be mended at once again.
        if (at > repair.dueAt + MAX_PAUSE_MS) bySid.delete(sid);
        return undefined;
      }
      if (at < repair.dueAt) return undefined;
      repair.attempts++;
      repair.dueAt = at + Math.min(MAX_PAUSE_MS, pauseMs * 2 ** repair.attempts);
      return repair.isCondemned || (repair.attempts > MAX_SNAPSHOTS && doubtful === all)
        ? 'resubscribe'
        : 'snapshot';
    },
  };
}
