import { groupBy } from '../../../core/collections.js';
import type { Orm } from '../../../core/db/client.js';
import { differenceOf } from '../../../core/decimal.js';
import { fieldError } from '../../../core/pages/form.js';
import { formatMonth, roundParts } from '../../../core/pages/format.js';
import { DAY_MS, monthOf } from '../../../core/time.js';
import { readAccount, type AccountId } from '../../credit-grants/queries.js';
import type { CreditEntryKind } from '../../credits/table.js';
import { OLD_PAST_MS } from '../../ingestion/batch.js';
import { closingOf } from '../closing.js';
import { addMonths, monthPeriod, type Period } from '../period.js';
import { balanceOf, effectOf, negate, SNAPSHOT, total } from './ledger.js';
import { readInTime } from './queries.js';
import { nameOfGrant } from './view.js';
import {
  listProductNames,
  readBegun,
  readEntrySums,
  readMonthFacts,
  readTotals,
  selectPriceLines,
  type EntrySum,
  type MonthFacts,
  type PriceLine,
} from './statement-queries.js';

/** The price is null for usage that is known only by its total. */
export type StatementLine = Omit<PriceLine, 'productId' | 'price' | 'kind' | 'quantity'> & {
  kind: PriceLine['kind'] | 'other';
  product: { slug: string; name: string };
  price: string | null;
  quantity: string | null;
};

const costOf = (sums: readonly EntrySum[]): string =>
  negate(total(sums.filter(({ kind }) => kind === 'burn' || kind === 'return').map(effectOf)));

export type Statement = Awaited<ReturnType<typeof readStatement>>;

/**
 * A month's account by the hour of usage, so that a late event or a correction changes its own month. It is read in one
 * snapshot, backwards from the current balance, so all sums agree with the ledger.
 * @throws AppError for a month without a statement
 */
export const readStatement = (orm: Orm, id: AccountId, month: Period, now: Date, maxLines: number) =>
  orm.transaction(async (tx) => {
    const since = new Date(monthOf(now.getTime() - OLD_PAST_MS));
    const facts = await readMonthFacts(tx, id, month, since);
    requireMonth(month, facts, now);
    const entries = await readAllEntries(tx, id, month, now);
    const begun = await readBegun(tx, id, month, now);
    const unused = new Set(begun.filter(({ isUnused }) => isUnused).map((grant) => grant.id));
    const used = entries.sums.filter(({ grantId }) => !unused.has(grantId));
    const grants = begun.filter(({ isUnused }) => !isUnused);
    const isLater = ({ startsAt }: { startsAt: string }) => Date.parse(startsAt) >= month.to.getTime();
    const own = used.filter((sum) => !sum.isLater);
    const ofKind = (...kinds: CreditEntryKind[]) => own.filter(({ kind }) => kinds.includes(kind));
    const effect = (...kinds: CreditEntryKind[]) => total(ofKind(...kinds).map(effectOf));
    const closing = total([
      entries.balance,
      ...used.filter((sum) => sum.isLater).map((sum) => negate(effectOf(sum))),
      ...grants.filter(isLater).map(({ amount }) => negate(amount)),
    ]);
    const granted = grants.filter((grant) => !isLater(grant));
    const opening = total([
      closing,
      ...own.map((sum) => negate(effectOf(sum))),
      ...granted.map(({ amount }) => negate(amount)),
    ]);
    const burned = ofKind('burn', 'return');
    return {
      organization: facts.name,
      number: `${facts.slug}/${month.from.toISOString().slice(0, 7)}`,
      month,
      startsAt: new Date(facts.startsAt),
      outlook: outlookOf(month, facts, now),
      ...(await readLines(tx, id, month, burned, maxLines)),
      cost: costOf(own),
      usage: negate(costOf(own)),
      payments: paymentsOf(burned),
      overdraft: negate(total(burned.filter(isOverdraft).map(effectOf))),
      opening,
      granted: granted.map((grant) => ({ ...grant, name: nameOfGrant(grant) })),
      expired: effect('expire'),
      forfeited: effect('void'),
      forgiven: effect('forgive'),
      repaid: total(ofKind('repay').map(({ amount }) => amount)),
      closing,
    };
  }, SNAPSHOT);

function requireMonth(month: Period, { startsAt }: MonthFacts, now: Date): void {
  if (month.from > now) throw fieldError('month', `must not be after ${formatMonth(now)}, the current month`);
  const first = new Date(startsAt);
  if (month.to <= first)
    throw fieldError('month', `must not be before ${formatMonth(first)}, your Organization’s first month`);
}

const isOverdraft = ({ grantId, productId }: EntrySum): boolean => grantId === productId;

/** As `selectEntrySums` does. */
const countedAt = (kind: CreditEntryKind, hourMs: number): number =>
  kind === 'expire' ? Math.floor(hourMs / DAY_MS) * DAY_MS - 1 : hourMs;

/** With entries that a read computes and the next write stores: grants that have ended, and what follows from that. */
async function readAllEntries(tx: Orm, id: AccountId, { from, to }: Period, now: Date) {
  const { account, entries, grants } = await readAccount(tx, id, now, 0);
  const stored = await readEntrySums(tx, id, { from, to });
  const ended = account.grants.filter(({ endsMs }) => endsMs <= now.getTime());
  const computed = [
    ...entries,
    ...ended.map(({ id: grantId, rest, endsMs }) => ({
      kind: 'expire' as const,
      productId: '',
      grantId,
      hour: new Date(endsMs).toISOString(),
      amount: rest,
    })),
  ]
    .map((entry) => ({ ...entry, atMs: countedAt(entry.kind, Date.parse(entry.hour)) }))
    .filter(({ atMs }) => atMs >= from.getTime())
    .map(({ kind, productId, grantId, atMs, amount }): EntrySum => {
      const grant = grants.find((one) => one.id === grantId);
      const isLater = atMs >= to.getTime();
      const [grantKey, grantReason] = [grant?.grantKey ?? null, grant?.reason ?? null];
      return { isLater, kind, productId, grantId, grantKey, grantReason, amount };
    });
  return { sums: [...stored, ...computed], balance: balanceOf(account, now) };
}

function paymentsOf(burned: readonly EntrySum[]) {
  const byGrant = groupBy(
    burned.filter((sum) => !isOverdraft(sum)),
    ({ grantId }) => grantId,
  );
  return [...byGrant.values()]
    .map((sums) => ({
      grantKey: sums[0]!.grantKey!,
      name: nameOfGrant({ grantKey: sums[0]!.grantKey!, reason: sums[0]!.grantReason! }),
      credits: negate(total(sums.map(effectOf))),
    }))
    .filter(({ credits }) => credits !== '0');
}

/** That paid for a month's usage. Undefined unless they add up to these credits: late usage may burn in another month. */
export async function readPayments(
  orm: Orm,
  id: AccountId,
  { period, credits, productId }: { period: Period; credits: string | undefined; productId?: string },
  now: Date,
) {
  if (period.range !== 'month' || credits === undefined) return undefined;
  const { sums } = await orm.transaction((tx) => readAllEntries(tx, id, period, now), SNAPSHOT);
  const own = sums.filter((sum) => !sum.isLater && sum.productId === (productId ?? sum.productId));
  const burned = own.filter(({ kind }) => kind === 'burn' || kind === 'return');
  const overdraft = negate(total(burned.filter(isOverdraft).map(effectOf)));
  if (costOf(burned) !== credits) return undefined;
  const payments = paymentsOf(burned);
  const ofPlans = payments.filter(({ grantKey }) => grantKey.startsWith('plan:'));
  const ofPlan = total(ofPlans.map((one) => one.credits));
  const ofOthers = differenceOf(total(payments.map((one) => one.credits)), ofPlan);
  const paid = [
    { name: 'the plan', credits: ofPlan },
    { name: ofPlan === '0' ? 'grants' : 'other grants', credits: ofOthers },
    { name: 'the overdraft', credits: overdraft },
  ].filter((one) => one.credits !== '0');
  const rounded = roundParts(paid.map((one) => one.credits));
  return paid.map(({ name }, i) => ({ name, credits: rounded[i]! }));
}

/** One line per product covers the rest: archived events, or lines beyond the largest. Usage without a price is free. */
async function readLines(
  tx: Orm,
  id: AccountId,
  month: Period,
  burned: readonly EntrySum[],
  maxLines: number,
): Promise<{ lines: StatementLine[]; isTooLong: boolean }> {
  const byProduct = groupBy(burned, ({ productId }) => productId);
  const totals = await readTotals(tx, id, month);
  const ids = new Set([...byProduct.keys(), ...totals.map(({ productId }) => productId)]);
  const names = await listProductNames(tx, [...ids]);
  const priced = await readInTime<PriceLine>(
    tx,
    selectPriceLines(id, month, [...byProduct.keys()], maxLines),
  );
  const lines = [...ids].flatMap((productId): StatementLine[] => {
    const { slug, name } = names.get(productId)!;
    const product = { slug, name };
    const own = (priced ?? []).filter((line) => line.productId === productId);
    const rest = total([
      ...(byProduct.get(productId) ?? []).map((sum) => negate(effectOf(sum))),
      ...own.map((line) => negate(line.credits)),
    ]);
    const shown = own.map(({ productId: _id, ...line }): StatementLine => ({ ...line, product }));
    const none = { product, dimension: null, value: null };
    if (rest !== '0')
      return [...shown, { ...none, kind: 'other', metric: '', price: null, quantity: null, credits: rest }];
    const free = totals
      .filter((one) => one.productId === productId)
      .map(({ metric, quantity }): StatementLine => {
        const ofMetric = own.filter((line) => line.metric === metric);
        const left = total([quantity, ...ofMetric.map((line) => negate(line.quantity))]);
        return { ...none, kind: 'usage', metric, price: '0', quantity: left, credits: '0' };
      });
    return [...shown, ...free.filter((line) => Number(line.quantity) > 0)];
  });
  return {
    lines: lines.toSorted((a, b) =>
      a.product.slug < b.product.slug ? -1 : a.product.slug > b.product.slug ? 1 : 0,
    ),
    isTooLong: priced === undefined || priced.length === maxLines,
  };
}

function outlookOf(month: Period, facts: MonthFacts, now: Date) {
  const closing = closingOf(month, facts.mayCorrect, now);
  const first = Math.max(Date.parse(facts.startsAt), now.getTime() - OLD_PAST_MS);
  let open = 0;
  for (let at = monthPeriod(new Date(first)).from; at < month.to; at = addMonths(at, 1)) open += 1;
  return {
    ...closing,
    isRunning: month.to > now,
    isFinal: closing.lateUntil <= now && !facts.hasEvents && facts.archived >= open,
  };
}
