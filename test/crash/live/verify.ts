import { eq } from 'drizzle-orm';
import type { Database } from '../../../src/core/db/client.js';
import { tradingFills, tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import {
  ledgerEntries,
  tradingAccounts,
  tradingPositions,
} from '../../../src/markets/ledger/portfolio-table.js';
import type { StrictExchange } from './strict-exchange.js';

const toHundredths = (contracts: number) => Math.round(contracts * 100);

/** Compares the service's records with the venue's, row by row and to the last digit. */
export async function findViolations(
  { orm }: Database,
  orgId: string,
  { orders, fills, positions, arrivals, refusals, cash }: StrictExchange,
): Promise<string[]> {
  const found: string[] = refusals.map((what) => `the venue does not know a request: ${what}`);
  const expect = (what: string, ours: unknown, venues: unknown) => {
    if (ours !== venues) found.push(`${what}: ${String(ours)} here, ${String(venues)} at the venue`);
  };
  for (const [name, times] of arrivals) if (times > 1) found.push(`order ${name} was sent ${times} times`);

  const ownOrders = await orm.select().from(tradingOrders).where(eq(tradingOrders.orgId, orgId));
  const byName = new Map(ownOrders.map((order) => [order.clientOrderId, order]));
  expect('orders by name', byName.size, ownOrders.length);
  for (const order of orders) {
    const own = byName.get(order.name);
    if (!own) found.push(`order ${order.name} is only at the venue`);
    else
      expect(
        `filled contracts of ${own.id} (${own.status})`,
        toHundredths(own.filledContracts),
        order.filled,
      );
  }
  const atVenue = new Set(orders.map(({ name }) => name));
  for (const { id, clientOrderId, filledContracts } of ownOrders)
    if (!atVenue.has(clientOrderId) && filledContracts > 0) found.push(`order ${id} filled only here`);

  const ownFills = await orm.select().from(tradingFills).where(eq(tradingFills.orgId, orgId));
  const byId = new Map(ownFills.map((fill) => [fill.venueFillId, fill]));
  expect('fills', ownFills.length, fills.length);
  const sideOf = new Map(ownOrders.map(({ id, side }) => [id, side]));
  for (const fill of fills) {
    const own = byId.get(fill.id);
    if (!own) found.push(`fill ${fill.id} of ${fill.contracts} is only at the venue`);
    else {
      expect(`contracts of fill ${fill.id}`, toHundredths(own.contracts), fill.contracts);
      expect(`fee of fill ${fill.id}`, own.fee, fill.fee);
      expect(
        `price of fill ${fill.id}`,
        sideOf.get(own.orderId) === 'yes' ? own.price : 1_000_000n - own.price,
        fill.price,
      );
    }
  }

  const held = await orm.select().from(tradingPositions).where(eq(tradingPositions.orgId, orgId));
  const ours = new Map(
    held.map(({ ticker, side, contracts }) => [ticker, toHundredths(contracts) * (side === 'yes' ? 1 : -1)]),
  );
  for (const ticker of new Set([...ours.keys(), ...positions.keys()]))
    expect(`position in ${ticker}`, ours.get(ticker) || 0, positions.get(ticker) || 0);

  const [account] = await orm.select().from(tradingAccounts).where(eq(tradingAccounts.orgId, orgId));
  expect('cash', account?.cash, cash);
  const entries = await orm.select().from(ledgerEntries).where(eq(ledgerEntries.orgId, orgId));
  const kinds = new Set(entries.map(({ kind }) => kind));
  for (const kind of kinds) if (kind !== 'deposit' && kind !== 'fill') found.push(`the ledger has a ${kind}`);
  for (const { id, cash: a, positions: b, fees, realised, capital } of entries)
    if (a + b + fees + realised + capital !== 0n) found.push(`ledger entry ${id} does not sum to zero`);
  expect(
    'the sum of the ledger',
    entries.reduce((sum, entry) => sum + entry.cash, 0n),
    cash,
  );
  return found;
}
