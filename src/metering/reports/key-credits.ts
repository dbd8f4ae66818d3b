import { sumDecimals, differenceOf } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { formatDecimal, formatShare, formatUnit } from '../../core/pages/format.js';
import { listRotations, readProductSums } from '../events/page-queries.js';
import { readProducts } from './choices.js';
import { readBurns } from './credits/queries.js';
import { monthPeriod } from './period.js';

type Key = { id: string; livemode: boolean };

/** At the present prices, with the keys of its rotations. Undefined if these do not explain all that the month burned. */
export async function readKeyCredits(
  { db: { orm }, clock }: Pick<Context, 'db' | 'clock'>,
  orgId: string,
  key: Key,
) {
  const { livemode } = key;
  const period = monthPeriod(new Date(clock.now()));
  const products = await readProducts({ orm, clock }, orgId, livemode ? 'live' : 'test');
  const range = { ...period, productIds: products.map(({ id }) => id), livemode };
  const sums = await readProductSums(orm, orgId, {
    ...range,
    apiKeyIds: await listRotations(orm, orgId, key.id),
  });
  const burns = await readBurns(orm, { orgId, livemode }, period);
  const whole = sumDecimals(burns.map(({ burned, returned }) => differenceOf(burned, returned)));
  if (whole === '0' || whole !== sumDecimals(sums.map((sum) => sum.wholeCredits ?? '0'))) return undefined;
  const credits = sumDecimals(sums.map((sum) => sum.credits ?? '0'));
  const share = credits === '0' ? '' : `, ${formatShare(credits, whole)} of all`;
  return `${formatDecimal(credits)} ${formatUnit(credits, 'credits')} this month${share}`;
}
