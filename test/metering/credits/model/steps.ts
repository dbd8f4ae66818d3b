import fc from 'fast-check';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export interface SentEvent {
  product: number;
  quantity: number;
  /** In ms before now; undefined to omit the time. */
  ago: number | undefined;
  model: string;
  subject: string;
}

export type Step =
  | {
      do: 'grant';
      amount: string;
      priority: number;
      /** In ms from now; undefined to omit the time. */
      starts: number | undefined;
      lasts: number | undefined;
      products: number[] | undefined;
      roll: { percent: number; days: number } | undefined;
    }
  | { do: 'void'; which: number }
  | { do: 'forgive'; product: number }
  | { do: 'price'; product: number; price: string; large: string | undefined; blocks: boolean }
  | { do: 'send'; events: SentEvent[]; isRepeated: boolean }
  | { do: 'correct'; which: number; quantity: number; again: number | undefined }
  | { do: 'reserve'; event: SentEvent; ttl: number }
  | { do: 'settle'; which: number; share: number | undefined; ago: number | undefined }
  | { do: 'release'; which: number }
  | { do: 'old'; events: SentEvent[] }
  | { do: 'wait'; ms: number };

const product = fc.nat(1);
const which = fc.nat(9);
const quantity = fc.constantFrom(0, 0.001, 0.5, 1, 1.333, 2, 7, 40.125);
const price = fc.constantFrom('0', '1', '0.1', '2.5', '0.000000000001', '1.333333333333', '12.000000000007');
const ago = fc.constantFrom(
  undefined,
  undefined,
  0,
  1,
  59 * MINUTE,
  HOUR,
  DAY,
  6 * DAY + 23 * HOUR,
  7 * DAY,
  -4 * MINUTE,
);
const event: fc.Arbitrary<SentEvent> = fc.record({
  product,
  quantity,
  ago,
  model: fc.constantFrom('', 'large', 'small'),
  subject: fc.constantFrom('', 'ann', 'ben'),
});
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const steps: Record<Step['do'], [weight: number, arbitrary: fc.Arbitrary<Step>]> = {
  grant: [
    4,
    fc.record({
      do: fc.constant('grant' as const),
      amount: fc.constantFrom('0.000000000001', '1', '3.3', '10', '25.000000000001', '100'),
      priority: fc.constantFrom(0, 50, 50, 50, 100),
      starts: fc.constantFrom(undefined, undefined, undefined, 1, HOUR, DAY),
      lasts: fc.constantFrom(undefined, MINUTE, HOUR, 5 * HOUR, DAY, 3 * DAY, 31 * DAY),
      products: fc.constantFrom(undefined, undefined, [0], [1], [0, 1]),
      roll: optional(
        fc.record({ percent: fc.constantFrom(1, 33, 50, 100), days: fc.constantFrom(1, 7, 31) }),
      ),
    }),
  ],
  void: [1, fc.record({ do: fc.constant('void' as const), which })],
  forgive: [1, fc.record({ do: fc.constant('forgive' as const), product })],
  price: [
    1,
    fc.record({
      do: fc.constant('price' as const),
      product,
      price,
      large: optional(price),
      blocks: fc.boolean(),
    }),
  ],
  send: [
    8,
    fc.record({
      do: fc.constant('send' as const),
      events: fc.array(event, { minLength: 1, maxLength: 4 }),
      isRepeated: fc.boolean(),
    }),
  ],
  correct: [
    4,
    fc.record({
      do: fc.constant('correct' as const),
      which: fc.nat(99),
      quantity,
      again: optional(quantity),
    }),
  ],
  reserve: [
    3,
    fc.record({ do: fc.constant('reserve' as const), event, ttl: fc.constantFrom(1, 300, 86_400) }),
  ],
  settle: [
    3,
    fc.record({
      do: fc.constant('settle' as const),
      which,
      share: fc.constantFrom(undefined, 0, 0.5, 1, 2),
      ago,
    }),
  ],
  release: [1, fc.record({ do: fc.constant('release' as const), which })],
  old: [
    1,
    fc.record({
      do: fc.constant('old' as const),
      events: fc.array(event, { minLength: 1, maxLength: 4 }),
    }),
  ],
  wait: [
    5,
    fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(1, 999, MINUTE, 59 * MINUTE, HOUR, 5 * HOUR, DAY, 6 * DAY, 8 * DAY, 31 * DAY),
    }),
  ],
};

/** CREDITS_STEPS=grant,send,wait restricts a run to these kinds of steps. */
const only = (
  process.env.CREDITS_STEPS ?? 'grant,void,forgive,price,send,correct,reserve,settle,release,old,wait'
).split(',');

export const anyStep = fc.oneof(
  ...Object.entries(steps)
    .filter(([name]) => only.includes(name))
    .map(([, [weight, arbitrary]]) => ({ weight, arbitrary })),
);

/** Sequences that once failed. */
export const examples: [start: string, sequence: Step[]][] = [
  [
    // Two corrections of one event in one request read the same part of the ledger.
    '2031-06-01T00:00:00.000Z',
    [
      {
        do: 'grant',
        amount: '1',
        priority: 100,
        starts: undefined,
        lasts: 3 * DAY,
        products: [1],
        roll: { percent: 33, days: 31 },
      },
      {
        do: 'send',
        events: [
          { product: 1, quantity: 7, ago: DAY, model: '', subject: '' },
          { product: 1, quantity: 7, ago: undefined, model: 'large', subject: 'ann' },
        ],
        isRepeated: false,
      },
      { do: 'wait', ms: 6 * DAY },
      { do: 'correct', which: 1, quantity: 40.125, again: 0 },
    ],
  ],
  [
    // An event that was corrected to 0 burns credits from a grant and gives them back within one request.
    '2031-03-20T12:34:56.789Z',
    [
      {
        do: 'grant',
        amount: '1',
        priority: 0,
        starts: undefined,
        lasts: undefined,
        products: undefined,
        roll: undefined,
      },
      {
        do: 'send',
        events: [{ product: 0, quantity: 2, ago: undefined, model: '', subject: '' }],
        isRepeated: false,
      },
      { do: 'correct', which: 0, quantity: 0, again: undefined },
      { do: 'correct', which: 0, quantity: 0.5, again: 0 },
    ],
  ],
];

/** Start times, mostly shortly before the end of an hour, a month or a year, or before a leap day. */
export const starts = [
  '2031-03-20T12:34:56.789Z',
  '2031-03-31T23:59:30.000Z',
  '2031-12-31T22:45:00.000Z',
  '2032-02-28T23:59:59.999Z',
  '2031-06-01T00:00:00.000Z',
];
