import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import type { AppError } from '../../../src/core/errors.js';
import { riskLimits } from '../../../src/markets/ledger/risk-table.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { books, marketableOrders } from '../support/orders-arbitraries.js';
import { bidsOfBook, placeOnModel, type ModelAccount, type ModelAnswer } from '../support/orders-model.js';
import { useTradingTest, TICKER } from '../support/trade.js';
import { keyAuthority } from '../../../src/accounts/api-keys/authority.js';

const { database, service } = useTradingTest({ env: { PAPER_CASH: '4.00' } });

/** Creates an Organization that is limited only by its cash. */
async function createRiskTaker() {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const { id: apiKeyId } = await createKey(db, orgId, { scopes: ['trading:write'] });
  const huge = 1_000_000_000_000n;
  await db.orm.insert(riskLimits).values({
    orgId,
    maxOrderContracts: 1_000_000,
    maxOrderCost: huge,
    maxPositionContracts: 1_000_000,
    maxEventLoss: huge,
    maxDailyLoss: huge,
    priceCollar: 1_000_000n,
    updatedAt: new Date(0),
  });
  return { orgId, apiKeyId };
}

const steps = fc.array(fc.record({ book: fc.option(books, { freq: 4 }), order: marketableOrders }), {
  minLength: 30,
  maxLength: 30,
});

it('any thirty orders end in exactly the state of a simple reference model', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (list) => {
      const { orgId, apiKeyId } = await createRiskTaker();
      const model: ModelAccount = { cash: 4_000_000n, net: 0, bids: [] };
      let last: string | undefined;
      await service.showBook({ yes: [], no: [] });
      for (const [i, { book, order }] of list.entries()) {
        if (book) {
          const shown = JSON.stringify([book.yes, book.no], (_key, value: unknown) =>
            typeof value === 'bigint' ? String(value) : value,
          );
          // Showing an unchanged book again does not refill it.
          if (shown !== last) model.bids = bidsOfBook(book);
          last = shown;
          await service.showBook(book);
        }
        const answer = await service.trading.orders
          .place({
            ...order,
            orgId,
            mode: 'paper',
            by: keyAuthority(orgId, apiKeyId, 'trading:write'),
            idempotencyKey: `order-${i}`,
            ticker: TICKER,
          })
          .then(
            ({ trade }): ModelAnswer => ({
              fills: trade.fills.map(({ price, contracts }) => ({ price, contracts })),
              cashChange: trade.balanceChange,
              fees: trade.fees,
            }),
            (error: unknown) => ({ refusal: (error as AppError).code }),
          );
        expect(answer).toEqual(placeOnModel(model, order));
      }
      const [row] = await selectRows<{ cash: string; net: string }>(
        database.db.orm,
        sql`select coalesce((select sum(cash) from ledger_entries where org_id = ${orgId}), 4000000)::text as cash,
          coalesce((select sum(case side when 'yes' then contracts else -contracts end) * 100 from trading_positions where org_id = ${orgId}), 0)::int::text as net`,
      );
      expect(row).toEqual({ cash: String(model.cash), net: String(model.net) });
    }),
    { numRuns: 4 },
  );
});
