import { exampleWorld as accounts, lasting } from '../../accounts/reference/example-world.js';
import { exampleSecret } from '../../core/reference/example-world.js';

export const exampleWorld = {
  ...accounts,
  keys: {
    ...accounts.keys,
    traderKey: {
      id: '019b8d9a-6400-7000-8000-000000000030',
      name: 'trading client',
      secret: exampleSecret('live', 'Trader'),
      scopes: ['trading:read', 'trading:write'],
      ...lasting,
    },
  },
  /** In New York at `now`, in the simulated world. */
  markets: {
    yesterday: {
      eventTicker: 'KXHIGHNY-26JAN30',
      lowest: { ticker: 'KXHIGHNY-26JAN30-T43', label: '42° or below' },
    },
    today: {
      eventTicker: 'KXHIGHNY-26JAN31',
      lowest: { ticker: 'KXHIGHNY-26JAN31-T47' },
      /** The next bracket up. Its asks are 9 contracts at $0.36 and 3 more at $0.37. */
      traded: {
        ticker: 'KXHIGHNY-26JAN31-B47.5',
        bracket: { kind: 'between', floor: 47, cap: 48, unit: 'fahrenheit', label: '47° to 48°' },
        label: '47° to 48°',
      },
      unknown: { ticker: 'KXHIGHNY-26JAN31-B99.5' },
    },
  },
  trade: {
    id: '019c0f10-9500-7000-8000-000000000061',
    idempotencyKey: 'ny-jan31-morning',
    clientOrderId: '6f1c2a4e-8d0b-5c37-9e21-4b7a1d5f0c93',
    ticker: 'KXHIGHNY-26JAN31-B47.5',
    createdAt: '2026-01-30T15:04:05.000Z',
  },
  /** Only in examples where an order rests. */
  resting: {
    id: '019c13a6-8a00-7000-8000-000000000062',
    idempotencyKey: 'ny-jan31-patient',
    clientOrderId: 'b3f0a7d2-51c9-5e08-8a64-2d9e7c1f4a30',
    ticker: 'KXHIGHNY-26JAN31-B47.5',
    createdAt: '2026-01-31T12:00:00.000Z',
    queueAhead: 120,
  },
} as const;
