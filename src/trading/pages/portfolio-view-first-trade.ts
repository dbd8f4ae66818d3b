import type { Snapshot } from '../snapshot/snapshot.js';

/** A call that makes a first paper trade, of a market that trades at the moment. Undefined while none is known. */
export function curlOfFirstTrade(url: string, snapshot: Snapshot | undefined): string | undefined {
  const market = snapshot?.data.markets.find(({ status, yesAsk }) => status === 'active' && yesAsk !== null);
  if (!market) return undefined;
  const order = { ticker: market.ticker, side: 'yes', action: 'buy', contracts: 1, limitPrice: '0.99' };
  return [
    `curl ${url}/trade`,
    `-H 'Authorization: Bearer org_test_…'`,
    `-H 'Content-Type: application/json'`,
    `-H 'Idempotency-Key: first-trade'`,
    `-d '${JSON.stringify(order)}'`,
  ].join(' \\\n  ');
}
