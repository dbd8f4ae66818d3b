import { keyError } from '../../accounts/api-keys/bearer-key.js';
import { createRecall } from '../../core/collections.js';
import { sumDecimals } from '../../core/decimal.js';
import { type Clock, monthOf } from '../../core/time.js';
import { columnArrays, intArray, textArray } from '../../core/db/sql.js';
import type { Database, Run, Template } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import type { AppError } from '../../core/errors.js';
import { addFreeTimes, readLimits, type Subject } from './limit-queries.js';
import type { LimitState } from './limits.js';
import {
  checkEntitlements,
  checkPricedEntitlements,
  findEntitlements,
  listEntitlements,
  type BalanceRow,
  type EntitlementRow,
  type NoEntitlementRow,
} from './statements.js';
import {
  findCreditRooms,
  findOpenGrants,
  type CreditRoomRow,
  type OpenGrant,
  type OpenGrantsRow,
} from '../credits/statements.js';
import { toCreditPrice, type CreditPrice, type PriceColumns } from './price.js';
import type { EntitlementKind, UsageLimit } from './table.js';

/** In the current month and the calling key's mode. */
export interface Balance {
  kind: EntitlementKind;
  /** A null cap means unlimited. */
  unitCap: string | null;
  used: string;
  subject: LimitedSubject | undefined;
  /** Except those per subject. */
  limits: LimitState[];
  /** Undefined if the product costs none. */
  credits: Credits | undefined;
  /** JSON. */
  features: string;
}

export interface Credits {
  price: CreditPrice;
  /** For the product after holds, an exact decimal. */
  available: string;
}

export interface LimitedSubject extends Subject {
  perSubject: UsageLimit[];
}

export interface CurrentEntitlement extends Balance {
  productSlug: string;
  productName: string;
  usageMetric: string;
  startsAtMs: number;
  endsAtMs: number | null;
  /** First day of the month that `used` covers. */
  period: string;
}

export type EntitlementReader = ReturnType<typeof createEntitlementReader>;

export interface FindRequest {
  hashedSecret: string;
  slugs: string[];
}

interface ListRequest {
  hashedSecret: string;
  after: string;
  size: number;
}

const queueLimit = { weight: 200_000, bytes: Infinity };

export const findOptions = {
  queueLimit,
  fullWeight: 1_600,
  // A flush reads each key's products once for all of its calls, so extra calls are nearly free.
  gather: { weight: 1_600, ms: 5 },
  maxWeight: 6_400,
  weigh: (request: FindRequest) => request.slugs.length,
};

/** Always reads the database. Waiting calls share the next query. */
export function createEntitlementReader({ db, clock }: { db: Database; clock: Clock }) {
  const createFinder = <T extends Balance>(
    template: Template,
    read: (row: EntitlementRow, period: string) => T,
    /** For a flush after one that had products that cost credits. */
    priced?: Template,
  ) =>
    createGroupCoalescer<FindRequest, (T | undefined)[]>(db.shards, ({ run, parallelReads }) => {
      let isPriced = false;
      return {
        async flush(requests) {
          const readsGrants = isPriced && priced !== undefined;
          const way = { template: readsGrants ? priced : template, readsGrants, read };
          const found = await findAll(run, requests, clock.now(), way);
          isPriced = found.isPriced;
          return found.answers;
        },
        parallel: parallelReads,
        ...findOptions,
      };
    });
  const checker = createFinder(checkEntitlements, toBalance, checkPricedEntitlements);
  const finder = createFinder(findEntitlements, toEntitlement);
  const lister = createGroupCoalescer<ListRequest, CurrentEntitlement[]>(
    db.shards,
    ({ run, parallelReads }) => ({
      flush: (requests) => listAll(run, requests, clock.now()),
      parallel: parallelReads,
      queueLimit,
      fullWeight: 16,
      maxWeight: 64,
    }),
  );

  return {
    /** Undefined without an entitlement in effect. */
    check: (hashedSecret: string, slugs: string[]) => checker.submit({ hashedSecret, slugs }),
    /** Limits per subject, for each question. */
    async limitsOf(
      hashedSecret: string,
      questions: readonly { balance: Balance | undefined; subject: string | undefined }[],
    ): Promise<LimitState[][]> {
      const places: number[] = [];
      const subjects = questions.flatMap(({ balance, subject }, i): Subject[] => {
        const { perSubject = [], ...own } = balance?.subject ?? ({} as Partial<LimitedSubject>);
        if (subject === undefined || perSubject.length === 0) return [];
        places.push(i);
        return [{ ...(own as Subject), subject }];
      });
      const answers: LimitState[][] = questions.map(() => []);
      if (subjects.length === 0) return answers;
      const { run } = await db.shards.locate(hashedSecret);
      const states = await readLimits(run, subjects, clock.now());
      await addFreeTimes(run, subjects, states, clock.now());
      for (const [i, own] of states.entries()) answers[places[i]!] = own;
      return answers;
    },
    find: async (hashedSecret: string, slug: string) =>
      (await finder.submit({ hashedSecret, slugs: [slug] }))[0],
    /** In order of slug, after `after`. */
    list: (request: ListRequest) => lister.submit(request),
  };
}

interface Way<T> {
  template: Template;
  readsGrants: boolean;
  /** Must read only columns that the template returns. */
  read: (row: EntitlementRow, period: string) => T;
  /** Parameters after those of `findBalances`. */
  values?: string[];
  /** True for a row about neither a pair nor credits. */
  readOther?: (row: EntitlementRow) => boolean;
}

export async function findAll<T extends Balance>(
  run: Run,
  requests: FindRequest[],
  nowMs: number,
  { template, readsGrants, read, values: more = [], readOther }: Way<T>,
): Promise<{ answers: (AppError | (T | undefined)[])[]; isPriced: boolean }> {
  const { distinct, places } = findDistinct(requests);
  const keys = new Map<string, KeyPairs>();
  const products = new Map<string, number>();
  const pairs: Pairs = { keys: [], products: [] };
  const wanted = distinct.map(({ hashedSecret, slugs }) => {
    let key = keys.get(hashedSecret);
    if (!key) keys.set(hashedSecret, (key = { place: keys.size, byProduct: [] }));
    return slugs.map((slug) => {
      let product = products.get(slug);
      if (product === undefined) products.set(slug, (product = products.size));
      return (key.byProduct[product] ??= addPair(pairs, key.place, product));
    });
  });
  const period = monthOf(nowMs);
  const values = [
    textArray([...keys.keys()]),
    textArray([...products.keys()]),
    intArray(pairs.keys),
    new Date(nowMs).toISOString(),
    period,
    intArray(pairs.products),
    ...more,
  ];
  const problems: (AppError | undefined)[] = [];
  const found: T[] = [];
  const prices: ProductPrice[] = [];
  const grants: string[] = [];
  for (const row of await run<EntitlementRow>(template, values)) {
    if (readOther?.(row)) continue;
    const place = Number(row.place);
    if (row.credits?.startsWith('[')) grants[place] = row.credits;
    else if (row.credits !== null) prices[place] = toProductPrice(row.credits);
    else if (row.problem === null) found[place] = read(row, period);
    else problems[pairs.keys[place]!] = keyError(row.problem, 'entitlements:read');
  }
  const priced = [...keys.keys()].map((hashedSecret, k): PricedKey => ({
    hashedSecret,
    balances: [],
    grants: grants[k] ?? null,
  }));
  if (prices.length > 0)
    found.forEach((balance, pair) => {
      const product = prices[pairs.products[pair]!];
      if (product) priced[pairs.keys[pair]!]!.balances.push({ balance, product });
    });
  await Promise.all([addLimits(run, found, nowMs), addCredits(run, priced, nowMs, readsGrants)]);
  const answers = distinct.map(
    ({ hashedSecret }, d) => problems[keys.get(hashedSecret)!.place] ?? wanted[d]!.map((pair) => found[pair]),
  );
  return { answers: places.map((place) => answers[place]!), isPriced: prices.length > 0 };
}

/** Each combination of key and slug list is read once per flush. Equal bodies share one list (`parseCheck`). */
function findDistinct(requests: FindRequest[]): { distinct: FindRequest[]; places: number[] } {
  const bySlugs = new Map<string[], Map<string, number>>();
  const distinct: FindRequest[] = [];
  const places = requests.map((request) => {
    let byKey = bySlugs.get(request.slugs);
    if (!byKey) bySlugs.set(request.slugs, (byKey = new Map()));
    let place = byKey.get(request.hashedSecret);
    if (place === undefined) {
      place = distinct.push(request) - 1;
      byKey.set(request.hashedSecret, place);
    }
    return place;
  });
  return { distinct, places };
}

interface KeyPairs {
  place: number;
  /** From a product's index to its pair's. */
  byProduct: number[];
}

/** Distinct pairs of key and product. An object for each pair takes twice as long. */
interface Pairs {
  keys: number[];
  products: number[];
}

function addPair(pairs: Pairs, key: number, product: number): number {
  pairs.keys.push(key);
  return pairs.products.push(product) - 1;
}

async function listAll(run: Run, requests: ListRequest[], nowMs: number) {
  const period = monthOf(nowMs);
  const rows = await run<EntitlementRow | NoEntitlementRow>(listEntitlements, [
    ...columnArrays(requests, 'hashedSecret', 'after', 'size'),
    new Date(nowMs).toISOString(),
    period,
  ]);
  const problems: (AppError | undefined)[] = [];
  const found: CurrentEntitlement[][] = requests.map(() => []);
  const priced = requests.map(({ hashedSecret }): PricedKey => ({
    hashedSecret,
    balances: [],
    grants: null,
  }));
  for (const row of rows) {
    const call = Number(row.place);
    problems[call] = keyError(row.problem, 'entitlements:read');
    if (row.kind === null) continue;
    const balance = toEntitlement(row, period);
    found[call]!.push(balance);
    if (row.credits !== null) priced[call]!.balances.push({ balance, product: toProductPrice(row.credits) });
  }
  await Promise.all([addLimits(run, found.flat(), nowMs), addCredits(run, priced, nowMs)]);
  return requests.map((_request, call) => problems[call] ?? found[call]!);
}

/** An extra statement only if an entitlement has limits. */
async function addLimits(run: Run, found: Balance[], nowMs: number): Promise<void> {
  const limited = found.filter(({ subject }) => subject);
  if (limited.length === 0) return;
  const subjects = limited.map(({ subject }) => subject!);
  const states = await readLimits(run, subjects, nowMs);
  await addFreeTimes(run, subjects, states, nowMs);
  for (const [i, balance] of limited.entries()) balance.limits = states[i]!;
}

interface PricedKey {
  hashedSecret: string;
  balances: { balance: Balance; product: ProductPrice }[];
  /** JSON; null if not read, or if burning must be simulated first. */
  grants: string | null;
}

interface ProductPrice {
  productId: string;
  price: CreditPrice;
}

/** Prices rarely change, but each flush returns those of all its products. */
const recallPrice = createRecall<ProductPrice>(500);

const toProductPrice = (json: string): ProductPrice =>
  recallPrice(json, () => {
    const { productId, ...columns } = JSON.parse(json) as PriceColumns & { productId: string };
    return { productId, price: toCreditPrice(columns)! };
  });

/** One statement if a product costs credits and the grants are not read yet, another if burning must be simulated. */
async function addCredits(run: Run, keys: readonly PricedKey[], nowMs: number, areGrantsRead = false) {
  const priced = keys.filter(({ balances }) => balances.length > 0);
  if (priced.length === 0) return;
  if (!areGrantsRead) {
    const rows = await run<OpenGrantsRow>(findOpenGrants, [
      textArray(priced.map(({ hashedSecret }) => hashedSecret)),
      new Date(nowMs).toISOString(),
    ]);
    for (const { place, grants } of rows) priced[Number(place)]!.grants = grants;
  }
  for (const key of priced) if (key.grants !== null) addOpen(key, JSON.parse(key.grants) as OpenGrant[]);
  const others = priced.filter(({ grants }) => grants === null);
  if (others.length > 0) await addRooms(run, others, nowMs);
}

function addOpen({ balances }: PricedKey, grants: readonly OpenGrant[]): void {
  const isForAll = grants.every(({ scope }) => scope === '');
  const total = sumDecimals(grants.map(({ rest }) => rest));
  for (const { balance, product } of balances) {
    const { productId, price } = product;
    const available = isForAll
      ? total
      : sumDecimals(
          grants.flatMap(({ rest, scope }) => (scope === '' || scope.includes(productId) ? [rest] : [])),
        );
    balance.credits = { price, available };
  }
}

async function addRooms(run: Run, keys: readonly PricedKey[], nowMs: number): Promise<void> {
  const priced = keys.flatMap(({ hashedSecret, balances }) =>
    balances.map((own) => ({ hashedSecret, ...own })),
  );
  const rows = await run<CreditRoomRow>(findCreditRooms, [
    textArray(priced.map(({ hashedSecret }) => hashedSecret)),
    textArray(priced.map(({ product }) => product.productId)),
    new Date(nowMs).toISOString(),
  ]);
  for (const { balance, product } of priced) balance.credits = { price: product.price, available: '0' };
  for (const { place, room } of rows) priced[Number(place)]!.balance.credits!.available = room;
}

export const toBalance = ({ kind, unitCap, used, subject, features }: BalanceRow): Balance => ({
  kind,
  unitCap,
  used: used ?? '0',
  subject: subject === null ? undefined : (JSON.parse(subject) as LimitedSubject),
  limits: [],
  credits: undefined,
  features: features ?? '{}',
});

const toEntitlement = (row: EntitlementRow, period: string): CurrentEntitlement => ({
  ...toBalance(row),
  productSlug: row.productSlug,
  productName: row.productName,
  usageMetric: row.usageMetric,
  startsAtMs: Number(row.startsAtMs),
  endsAtMs: row.endsAtMs === null ? null : Number(row.endsAtMs),
  period,
});
