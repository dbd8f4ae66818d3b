import { keyError } from '../auth/key-problem.js';
import type { Clock } from '../clock.js';
import { createCoalescer } from '../coalesce.js';
import { intArray, textArray } from '../db/array-literal.js';
import type { Database, TextRow } from '../db/client.js';
import type { AppError } from '../errors.js';
import { monthOf } from '../usage/batch.js';
import { findEntitlements, listEntitlements } from './statements.js';
import type { EntitlementKind } from './table.js';

/** An entitlement in effect, with the balance of the current month in the mode of the asking key. */
export interface CurrentEntitlement {
  productSlug: string;
  productName: string;
  kind: EntitlementKind;
  usageMetric: string;
  /** Exact decimals; null is unlimited. */
  unitCap: string | null;
  used: string;
  startsAtMs: number;
  endsAtMs: number | null;
  /** First day of the month that `used` belongs to. */
  period: string;
}

/** Reads keys and entitlements together, always from the database. Reads that wait go together in the next query. */
export interface EntitlementReader {
  /** Per slug the entitlement in effect, or undefined. @throws AppError for a key that is not good */
  find(hashedSecret: string, slugs: string[]): Promise<(CurrentEntitlement | undefined)[]>;
  /** A page ordered by slug, starting after `after`. @throws AppError for a key that is not good */
  list(hashedSecret: string, page: { after: string; size: number }): Promise<CurrentEntitlement[]>;
}

interface FindRequest {
  hashedSecret: string;
  slugs: string[];
}

interface ListRequest {
  hashedSecret: string;
  after: string;
  size: number;
}

export function createEntitlementReader({ db, clock }: { db: Database; clock: Clock }): EntitlementReader {
  const shared = { parallel: 2, queueLimit: { weight: 200_000, bytes: Infinity } };

  const finder = createCoalescer<FindRequest, (CurrentEntitlement | undefined)[]>({
    ...shared,
    flush: (requests) => findAll(db, requests, clock.now()),
    fullWeight: 1_600,
    maxWeight: 6_400,
    weigh: (request) => request.slugs.length,
  });

  const lister = createCoalescer<ListRequest, CurrentEntitlement[]>({
    ...shared,
    flush: (requests) => listAll(db, requests, clock.now()),
    fullWeight: 16,
    maxWeight: 64,
  });

  return {
    find: (hashedSecret, slugs) => finder.submit({ hashedSecret, slugs }),
    list: (hashedSecret, page) => lister.submit({ hashedSecret, ...page }),
  };
}

async function findAll(db: Database, requests: FindRequest[], nowMs: number) {
  const keys = new Map<string, number>();
  const pairs = new Map<string, number>();
  const pairKeys: number[] = [];
  const pairSlugs: string[] = [];
  const wanted = requests.map(({ hashedSecret, slugs }) => {
    const key = numberOf(keys, hashedSecret);
    return slugs.map((slug) => {
      const before = pairs.size;
      const pair = numberOf(pairs, `${key} ${slug}`);
      if (pairs.size > before) {
        pairKeys.push(key);
        pairSlugs.push(slug);
      }
      return pair;
    });
  });
  const period = monthOf(nowMs);
  const values = [
    textArray([...keys.keys()]),
    intArray(pairKeys),
    textArray(pairSlugs),
    new Date(nowMs).toISOString(),
    period,
  ];
  const problems: (AppError | undefined)[] = [];
  const found: CurrentEntitlement[] = [];
  for (const row of await db.run(findEntitlements, values)) {
    if (row[0] != null) problems[Number(row[0])] = keyError(row[1] ?? null, 'entitlements:read');
    else found[Number(row[2])] = toEntitlement(row, period);
  }
  return requests.map(
    ({ hashedSecret }, r) => problems[keys.get(hashedSecret)!] ?? wanted[r]!.map((pair) => found[pair]),
  );
}

async function listAll(db: Database, requests: ListRequest[], nowMs: number) {
  const period = monthOf(nowMs);
  const rows = await db.run(listEntitlements, [
    textArray(requests.map((request) => request.hashedSecret)),
    textArray(requests.map((request) => request.after)),
    intArray(requests.map((request) => request.size)),
    new Date(nowMs).toISOString(),
    period,
  ]);
  const answers: (AppError | CurrentEntitlement[])[] = requests.map(() => []);
  for (const row of rows) {
    const call = Number(row[0] ?? row[2]) - 1;
    if (row[0] != null) {
      const error = keyError(row[1] ?? null, 'entitlements:read');
      if (error) answers[call] = error;
    } else (answers[call] as CurrentEntitlement[]).push(toEntitlement(row, period));
  }
  return answers;
}

/** Numbers distinct names from 1 in order of first use. */
function numberOf(numbers: Map<string, number>, name: string): number {
  let number = numbers.get(name);
  if (number === undefined) numbers.set(name, (number = numbers.size + 1));
  return number;
}

function toEntitlement(row: TextRow, period: string): CurrentEntitlement {
  return {
    productSlug: row[3]!,
    productName: row[4]!,
    kind: row[5] as EntitlementKind,
    usageMetric: row[6]!,
    unitCap: row[7] ?? null,
    used: row[8]!,
    startsAtMs: Number(row[9]),
    endsAtMs: row[10] == null ? null : Number(row[10]),
    period,
  };
}
