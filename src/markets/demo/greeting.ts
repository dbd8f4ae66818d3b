import { postLine, readLine } from '../../core/pages/curl-line.js';
import type { DemoData, GreetingPart } from '../../demo/demo.js';
import { findFirstOrder } from '../orders/first-order.js';
import type { Snapshot } from '../snapshot/snapshot.js';

export function greet({ keys }: DemoData, baseUrl: string, snapshot: Snapshot | undefined): GreetingPart {
  const paperKey = { name: 'paper', secret: keys.trading, note: 'portfolio and orders' };
  const order = findFirstOrder(snapshot);
  if (!order) return { keys: [paperKey], steps: [] };
  return {
    keys: [paperKey],
    steps: [
      {
        text: `Look at the markets (${baseUrl}/markets; as pages ${baseUrl}/dashboard/markets) and place a paper order`,
        command: postLine(`${baseUrl}/trade`, keys.trading, order, { 'Idempotency-Key': 'first-trade' }),
      },
      {
        text: 'See the portfolio after the order',
        command: readLine(`${baseUrl}/portfolio`, keys.trading),
      },
    ],
  };
}
