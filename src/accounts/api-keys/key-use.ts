import type { Logger } from 'pino';
import { v7 as uuid } from 'uuid';
import { type Clock, MINUTE_MS } from '../../core/time.js';
import type { Database, ShardGroup } from '../../core/db/client.js';
import { ShardGroupGoneError } from '../../core/db/shards.js';
import type { KeyReader } from './bearer-key.js';
import {
  recordUse,
  toUseValues,
  type GatheredUse,
  type MinuteCalls,
  type CallRefusal,
} from './key-use-queries.js';
import type { AnyScope } from './scopes.js';

export type KeyUse = ReturnType<typeof createKeyUse>;

export const GATHERED_MS = 30_000;

const MAX_SEEN = 50_000;
/** About 20 MB: a cell is one key's calls in one minute. Reached only if the database refuses writes for long. */
const MAX_CELLS = 100_000;
/** The embedded database can do nothing else while a statement runs. */
const KEYS_PER_WRITE = 500;

type Use = [hashedSecret: string, use: GatheredUse];

interface Write {
  id: string;
  group: ShardGroup;
  uses: Use[];
}

/** Collects calls in memory and writes them at least once a minute, to avoid a write per request. */
export function createKeyUse(
  { db, clock, log }: { db: Database; clock: Clock; log: Logger },
  { maxCells = MAX_CELLS } = {},
) {
  const gathered = gatherUse(clock, maxCells);
  /** Each is retried unchanged until the database confirms it, unless its shard group no longer exists. */
  let writes: Write[] = [];
  let work = Promise.resolve();
  const seen = new Set<string>();

  /** A failed write stays queued and blocks later writes to the same shard group. */
  async function settle(): Promise<void> {
    const left: Write[] = [];
    for (const write of writes) {
      const { id, group, uses } = write;
      if (left.some((before) => before.group === group)) left.push(write);
      else
        try {
          await group.run(recordUse, toUseValues(id, clock.now(), uses));
        } catch (error) {
          log.warn({ err: error }, 'API key usage could not be written; it stays queued');
          left.push(...(error instanceof ShardGroupGoneError ? toWrites(await locateAll(uses)) : [write]));
        }
    }
    writes = left;
  }

  async function locateAll(uses: Iterable<Use>): Promise<Map<ShardGroup, Use[]>> {
    const byGroup = new Map<ShardGroup, Use[]>();
    const add = (group: ShardGroup, use: Use) => {
      const known = byGroup.get(group);
      if (known) known.push(use);
      else byGroup.set(group, [use]);
    };
    const asked: Promise<void>[] = [];
    for (const use of uses) {
      const group = db.shards.locate(use[0]);
      if ('then' in group) asked.push(group.then((found) => add(found, use)));
      else add(group, use);
    }
    await Promise.allSettled(asked);
    return byGroup;
  }

  async function write(): Promise<void> {
    await settle();
    const byGroup = await locateAll(gathered.list());
    for (const { group } of writes) byGroup.delete(group);
    for (const uses of byGroup.values()) gathered.remove(uses);
    writes.push(...toWrites(byGroup));
    await settle();
    const calls = gathered.takeUncounted();
    if (calls > 0) log.error({ calls }, 'API key calls were not counted because the queue is full');
  }

  return {
    /** The counts of unknown keys are discarded on write. */
    refuse: gathered.refuse,
    /** `scope` is null if the route accepts any valid key. */
    touch(hashedSecret: string, scope: AnyScope | null): void {
      gathered.count(hashedSecret, scope);
      if (seen.size >= MAX_SEEN) seen.clear();
      seen.add(hashedSecret);
    },
    /** Affects only the order of the checks, never access. */
    hasSeen: (hashedSecret: string) => seen.has(hashedSecret),
    forget: (hashedSecret: string) => void seen.delete(hashedSecret),
    /** After a failure, the calls stay for the next flush. */
    flush: () => (work = work.then(write)),
  };
}

function toWrites(byGroup: Map<ShardGroup, Use[]>): Write[] {
  const writes: Write[] = [];
  for (const [group, uses] of byGroup)
    for (let i = 0; i < uses.length; i += KEYS_PER_WRITE)
      writes.push({ id: uuid(), group, uses: uses.slice(i, i + KEYS_PER_WRITE) });
  return writes;
}

const newMinute = (minuteMs: number): MinuteCalls => ({
  minuteMs,
  calls: 0,
  ended: 0,
  unscoped: 0,
  limited: 0,
});

function gatherUse(clock: Clock, maxCells: number) {
  const pending = new Map<string, GatheredUse>();
  let cells = 0;
  let uncounted = 0;

  function openKey(hashedSecret: string, minuteMs: number): GatheredUse | undefined {
    if (cells >= maxCells) return undefined;
    cells++;
    const use: GatheredUse = { atMs: null, minutes: [newMinute(minuteMs)], scopes: new Map() };
    pending.set(hashedSecret, use);
    return use;
  }

  /** Without cells left, further calls count towards the most recent minute, so that the total stays correct. */
  function openMinute(use: GatheredUse, minuteMs: number): MinuteCalls {
    const last = use.minutes.at(-1)!;
    if (last.minuteMs === minuteMs || cells >= maxCells) return last;
    cells++;
    const cell = newMinute(minuteMs);
    use.minutes.push(cell);
    return cell;
  }

  /** Undefined if the key has no pending calls and no cells are left. */
  function findCell(hashedSecret: string, now: number) {
    const minuteMs = now - (now % MINUTE_MS);
    const use = pending.get(hashedSecret) ?? openKey(hashedSecret, minuteMs);
    if (use === undefined) uncounted++;
    return use && { use, cell: openMinute(use, minuteMs) };
  }

  function refuse(hashedSecret: string, refusal: CallRefusal): void {
    const found = findCell(hashedSecret, clock.now());
    if (found) found.cell[refusal]++;
  }

  function count(hashedSecret: string, scope: AnyScope | null): void {
    const now = clock.now();
    const found = findCell(hashedSecret, now);
    if (!found) return;
    const { use } = found;
    use.atMs = now;
    found.cell.calls++;
    if (scope === null) return;
    const cell = use.scopes.get(scope);
    if (cell === undefined) use.scopes.set(scope, { calls: 1, atMs: now });
    else {
      cell.calls++;
      cell.atMs = now;
    }
  }

  function remove(uses: Use[]): void {
    for (const [hashedSecret, use] of uses) {
      pending.delete(hashedSecret);
      cells -= use.minutes.length;
    }
  }

  function takeUncounted(): number {
    const calls = uncounted;
    uncounted = 0;
    return calls;
  }

  return { count, refuse, list: () => [...pending], remove, takeUncounted };
}

export interface CallDeps {
  keys: KeyReader;
  keyUse: KeyUse;
}

export async function authenticateCall({ keys, keyUse }: CallDeps, hashedSecret: string, scope: AnyScope) {
  const principal = await keys.authenticate(hashedSecret, scope);
  keyUse.touch(hashedSecret, scope);
  return principal;
}
