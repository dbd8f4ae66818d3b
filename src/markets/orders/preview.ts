import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { findPaperCash } from '../ledger/queries.js';
import { asksOf, bidsOf } from '../market/book.js';
import { isOnTick } from '../market/market.js';
import { readKnownFacts } from '../risk/gate.js';
import type { OrderPreview, PaperOrder, Remedy } from './order.js';
import { bookHash, withoutTaken } from './paper-book.js';
import { readState } from './queries.js';
import { attempt, requireTradable } from './tradable.js';
import { assertAllowed, type Grounds } from './allowed.js';
import type { TransactionDeps } from './transaction.js';

/**
 * Runs the checks for placing a paper order, without locks or writes. `reserve` is the maximum amount that
 * the order takes from the balance.
 */
export async function previewOrder(
  orm: Orm,
  input: PaperOrder,
  { snapshots, clock, paperCash }: TransactionDeps,
): Promise<OrderPreview> {
  const at = new Date(clock.now());
  const view = attempt(() => requireTradable(snapshots, input, at.getTime()));
  if (view instanceof AppError) return { reserve: null, refusal: { error: view, remedy: null } };
  const { orgId, mode } = input;
  const [state, cash, facts] = await Promise.all([
    readState(orm, input, bookHash(view.book)),
    findPaperCash(orm, orgId),
    readKnownFacts(orm, { orgId, mode, at, replaces: input.replaces?.id }, paperCash),
  ]);
  const book = withoutTaken(view.book, state.taken);
  const grounds = { view, state, book, cash: cash ?? paperCash, facts, at };
  const reserve = attempt(() => assertAllowed(input, grounds));
  return reserve instanceof AppError
    ? { reserve: null, refusal: { error: reserve, remedy: findRemedy(input, grounds) } }
    : { reserve };
}

function findRemedy(input: PaperOrder, grounds: Grounds): Remedy | null {
  const refusalOf = (changes: Partial<PaperOrder>) => {
    const found = attempt(() => assertAllowed({ ...input, ...changes }, grounds));
    return found instanceof AppError ? found : undefined;
  };
  const passes = (changes: Partial<PaperOrder>) => refusalOf(changes) === undefined;
  const atMost = largest(Math.ceil(input.contracts) - 1, (contracts) => passes({ contracts }));
  if (atMost > 0) return { field: 'contracts', atMost, error: refusalOf({ contracts: atMost + 1 }) };

  const { side, action, limitPrice } = input;
  const isBuy = action === 'buy';
  const best = (isBuy ? asksOf : bidsOf)(grounds.book, side)[0]?.price;
  if (best === undefined || !passes({ limitPrice: best })) return null;
  const slack = isBuy ? limitPrice - best : best - limitPrice;
  if (slack < 0n) return { field: 'limitPrice', bound: isBuy ? 'at least' : 'at most', price: best };
  const { priceRanges } = grounds.view.market;
  const step = priceRanges.reduce((least, range) => (range.step < least ? range.step : least), slack);
  const away = (steps: number) => best + BigInt(isBuy ? steps : -steps) * step;
  let steps = largest(Number(slack / step), (count) => passes({ limitPrice: away(count) }));
  // Ticks may vary in size within a market; the best price is always on a tick.
  while (steps > 0 && !isOnTick(priceRanges, away(steps))) steps--;
  return { field: 'limitPrice', bound: isBuy ? 'at most' : 'at least', price: away(steps) };
}

/**
 * Returns the largest number up to `most` that passes, or 0. Uses a binary search, so everything below a passing number
 * must pass too.
 */
function largest(most: number, passes: (count: number) => boolean): number {
  let [least, highest] = [0, most];
  while (least < highest) {
    const middle = Math.ceil((least + highest) / 2);
    if (passes(middle)) least = middle;
    else highest = middle - 1;
  }
  return least;
}
