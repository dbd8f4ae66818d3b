/** Each `POST /trade` buys one contract from a simulated book, and the order is durable before the response. */
import { pino } from 'pino';
import type { Database } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { riskLimits } from '../src/markets/ledger/risk-table.js';
import { createKey, createOrganization } from '../test/support/fixtures.js';
import { measureLoad, type LoadOptions, type Measure } from './measures.js';
import { tradeRequest } from './world.js';

const HUGE = 1_000_000_000_000n;
/** Earlier orders empty the books. */
export const orderOptions: LoadOptions = { connections: 32, rotates: true, mostRefused: 0.5 };
let runs = 0;

/** Only cash limits its orders. */
async function createTrader(db: Database): Promise<string> {
  const { id: orgId } = await createOrganization(db, { slug: `trader-${Date.now()}-${++runs}` });
  await db.orm.insert(riskLimits).values({
    orgId,
    maxOrderContracts: 1_000_000,
    maxOrderCost: HUGE,
    maxPositionContracts: 1_000_000,
    maxEventLoss: HUGE,
    maxDailyLoss: HUGE,
    maxOpenOrders: 1_000,
    priceCollar: 1_000_000n,
    updatedAt: new Date(),
  });
  return (await createKey(db, orgId, { scopes: ['trading:write'] })).secret;
}

/** With mid-range prices, whose books always have both sides. */
async function listTickers(port: number): Promise<string[]> {
  const response = await fetch(`http://127.0.0.1:${port}/markets?status=active`);
  const { markets } = (await response.json()) as { markets: { ticker: string; yesAsk: string | null }[] };
  return markets
    .filter(({ yesAsk }) => Number(yesAsk) > 0.1 && Number(yesAsk) < 0.9)
    .map(({ ticker }) => ticker);
}

export async function listOrders(port: number, secrets: string[]): Promise<string[]> {
  const tickers = await listTickers(port);
  return tickers.flatMap((ticker) =>
    secrets.flatMap((secret) =>
      ['yes', 'no'].map((side) =>
        tradeRequest(secret, { ticker, side, action: 'buy', contracts: 1, limitPrice: '0.99' }),
      ),
    ),
  );
}

function tradeMeasure(accounts: number): Measure {
  return {
    key: `trade-${accounts}`,
    name: `paper orders on ${accounts === 1 ? 'one account' : `${accounts} accounts`}, 32 senders: orders/s`,
    target: 'measured',
    isGood: () => true,
    async run({ product, productUrl, seconds }) {
      const db = await openDatabase({ databaseUrl: productUrl, dataDir: '' }, pino({ level: 'silent' }));
      const secrets = await Promise.all(Array.from({ length: accounts }, () => createTrader(db)));
      await db.close();
      const orders = await listOrders(product.port, secrets);
      const { perSecond, p50Ms, p99Ms } = await measureLoad(product.port, seconds, orders, orderOptions);
      return { value: perSecond, note: `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms` };
    },
  };
}

export const tradeMeasures: Measure[] = [tradeMeasure(1), tradeMeasure(20)];
