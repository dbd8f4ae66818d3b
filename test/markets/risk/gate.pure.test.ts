import { describe, expect, it } from 'vitest';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { assessRisk } from '../../../src/markets/risk/gate.js';
import type { RiskFacts } from '../../../src/markets/risk/facts.js';
import { defaultLimits } from '../../../src/markets/risk/limits.js';
import type { MarketData } from '../../../src/markets/market/source.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import type { RiskInput } from '../../../src/markets/risk/exposure.js';
import { at, factsOf, held, inputOf, markets, pending, snapshotOf } from '../support/risk.js';

const detailOf = (input: RiskInput, facts: RiskFacts = factsOf()) => assessRisk(input, facts)?.detail;
const limits = (values: Partial<RiskFacts['limits']>) => factsOf({ limits: { ...defaultLimits, ...values } });
const switched = (values: Partial<RiskFacts['switches']>, rest: Partial<RiskFacts> = {}) =>
  factsOf({ ...rest, switches: { ...factsOf().switches, ...values } });
const withData = (values: Partial<MarketData>) =>
  snapshotOf(markets, { data: { ...snapshotOf().data, ...values } });
const sale = { action: 'sell', limitPrice: 40n * CENT } as const;

describe('the kill switch', () => {
  const tenHeld = { positions: [held('MILD', 'yes', 10, '4')] };

  it('refuses nothing while all three switches are open', () => {
    expect(detailOf(inputOf())).toBeUndefined();
  });

  it('refuses everything at halt, even a sale of held contracts, whoever set it', () => {
    const halt = { state: 'halt', reason: 'bad fills' } as const;
    for (const owner of ['service', 'operator', 'own'] as const)
      for (const ask of [{}, sale])
        expect(detailOf(inputOf(ask), switched({ [owner]: halt }, tenHeld))).toMatch(/^halt: .*bad fills/);
  });

  it('allows only reducing a position at reduce_only', () => {
    const facts = switched({ own: { state: 'reduce_only', reason: 'holiday' } }, tenHeld);
    expect(detailOf(inputOf(sale), facts)).toBeUndefined();
    // Buying ten NO closes the ten YES.
    expect(detailOf(inputOf({ side: 'no', limitPrice: 60n * CENT }), facts)).toBeUndefined();
    expect(detailOf(inputOf({ side: 'no', limitPrice: 60n * CENT, contracts: 11 }), facts)).toBe(
      "reduce_only: the Organization's own switch allows only orders that reduce a position (holiday). This order would buy 11 no contracts of MILD, of which 10 would close a position.",
    );
    expect(detailOf(inputOf(), facts)).toMatch(/^reduce_only: .* buy 10 yes contracts of MILD, of which 0 /);
    expect(detailOf(inputOf({ ticker: 'WARM', ...sale }), facts)).toMatch(/^reduce_only: /);
  });

  it('excludes contracts that pending orders already close', () => {
    const facts = switched(
      { service: { state: 'reduce_only', reason: null } },
      { ...tenHeld, pending: [pending('sell', 'MILD', 'yes', 4, 40), pending('buy', 'MILD', 'no', 3, 60)] },
    );
    expect(detailOf(inputOf({ ...sale, contracts: 3 }), facts)).toBeUndefined();
    expect(detailOf(inputOf({ ...sale, contracts: 4 }), facts)).toMatch(/of which 3 would close/);
  });
});

describe('market access', () => {
  const tenHeld = { positions: [held('MILD', 'yes', 10, '4')] };
  const codeOf = (input: RiskInput, facts: RiskFacts) => assessRisk(input, facts)?.code;

  it('refuses everything if none, and allows only closing positions if read', () => {
    const none = factsOf({ access: 'none', ...tenHeld });
    for (const ask of [{}, sale]) expect(codeOf(inputOf(ask), none)).toBe('entitlement_required');
    const read = factsOf({ access: 'read', ...tenHeld });
    expect(assessRisk(inputOf(sale), read)).toBeUndefined();
    expect(assessRisk(inputOf({ side: 'no', limitPrice: 60n * CENT }), read)).toBeUndefined();
    for (const ask of [{}, { contracts: 1 }, { side: 'no', limitPrice: 60n * CENT, contracts: 11 } as const])
      expect(codeOf(inputOf(ask), read)).toBe('entitlement_read_only');
  });

  it('is checked before the switches, and bypasses none of them', () => {
    const halt = { own: { state: 'halt', reason: 'bad fills' } } as const;
    expect(codeOf(inputOf(), switched(halt, { access: 'read' }))).toBe('entitlement_read_only');
    expect(detailOf(inputOf(sale), switched(halt, { access: 'read', ...tenHeld }))).toMatch(/^halt: /);
  });
});

describe('the check of the market data', () => {
  const seconds = (n: number) => ({ at: new Date(at.getTime() + n * 1000) });

  it.each<[string, Partial<RiskInput>, string | undefined]>([
    ['data 60 s old', seconds(60), undefined],
    ['data 61 s old', seconds(61), 'data_age: the market data is 61 s old; the limit is 60 s.'],
    ['data 2 s ahead', seconds(-2), undefined],
    ['data 3 s ahead', seconds(-3), 'clock_skew: the market data is from 3 s in the future.'],
    ['a venue 2 s ahead', { snapshot: withData({ clockSkewMs: 2000 }) }, undefined],
    [
      'a venue 2.1 s behind',
      { snapshot: withData({ clockSkewMs: -2100 }) },
      "clock_skew: the venue's clock and the server's are 2.1 s apart; the limit is 2 s.",
    ],
    [
      'a paused exchange',
      { snapshot: withData({ isTrading: false }) },
      'exchange_paused: the exchange has paused trading.',
    ],
  ])('handles %s', (_name, values, expected) => {
    expect(detailOf(inputOf({}, values))).toBe(expected);
  });

  it.each<[Snapshot['sources'][number]['state'], boolean]>([
    ['ok', true],
    // The last successful response is still recent enough.
    ['failing', true],
    ['unexpected', false],
    ['waiting', false],
  ])('given a source that is %s, lets an order pass: %s', (state, passes) => {
    const sources = snapshotOf().sources.map((source) => ({ ...source, state }));
    const detail = detailOf(inputOf({}, { snapshot: snapshotOf(markets, { sources }) }));
    if (passes) expect(detail).toBeUndefined();
    else expect(detail).toMatch(new RegExp(`^data_source: .*the source is ${state}\\.$`));
  });
});

describe('each limit', () => {
  // Ten YES of MILD at 50 cents cost at most 5.00 plus a fee of 0.07 · 10 · 0.5 · 0.5 = 0.175, which is 5.18 when
  // rounded up to a cent.
  it.each<[string, RiskInput, RiskFacts, string | undefined]>([
    ['order size, reached', inputOf(), limits({ maxOrderContracts: 10 }), undefined],
    [
      'order size, exceeded',
      inputOf(),
      limits({ maxOrderContracts: 9 }),
      'max_order_contracts: this order is for 10 contracts of MILD; the limit is 9.',
    ],
    ['order cost, reached', inputOf(), limits({ maxOrderCost: 518n * CENT }), undefined],
    [
      'order cost, exceeded',
      inputOf(),
      limits({ maxOrderCost: 517n * CENT }),
      'max_order_cost: this order may cost $5.1750; the limit is $5.17.',
    ],
    [
      'position, reached',
      inputOf(),
      { ...limits({ maxPositionContracts: 30 }), positions: [held('MILD', 'yes', 20, '8')] },
      undefined,
    ],
    [
      'position, exceeded',
      inputOf(),
      { ...limits({ maxPositionContracts: 250 }), positions: [held('MILD', 'yes', 250, '100')] },
      'max_position_contracts: this order would make 260 yes contracts of MILD; the limit is 250.',
    ],
    [
      'position, exceeded if a pending order fills',
      inputOf(),
      { ...limits({ maxPositionContracts: 30 }), pending: [pending('buy', 'MILD', 'yes', 21, 50)] },
      'max_position_contracts: this order would make 31 yes contracts of MILD; the limit is 30.',
    ],
    [
      'position on the other side, closing 20 and opening 10',
      inputOf({ contracts: 30 }),
      { ...limits({ maxPositionContracts: 10 }), positions: [held('MILD', 'no', 20, '8')] },
      undefined,
    ],
    ['open orders, reached', inputOf(), { ...limits({ maxOpenOrders: 1 }) }, undefined],
    [
      'open orders, exceeded',
      inputOf(),
      { ...limits({ maxOpenOrders: 1 }), pending: [pending('buy', 'WARM', 'yes', 1, 10)] },
      'max_open_orders: this order would be open order 2; the limit is 1.',
    ],
    ['collar of a purchase, reached: 45 + 10', inputOf({ limitPrice: 55n * CENT }), factsOf(), undefined],
    [
      'collar of a purchase, exceeded',
      inputOf({ limitPrice: 56n * CENT }),
      factsOf(),
      'price_collar: the limit price 56¢ is 11¢ above the best price 45¢ of MILD; the limit is 10¢.',
    ],
    [
      'collar of a sale, reached: 42 − 10',
      inputOf({ ...sale, limitPrice: 32n * CENT }),
      factsOf({ positions: [held('MILD', 'yes', 10, '4')] }),
      undefined,
    ],
    [
      'collar of a sale, exceeded',
      inputOf({ ...sale, limitPrice: 31n * CENT }),
      factsOf({ positions: [held('MILD', 'yes', 10, '4')] }),
      'price_collar: the limit price 31¢ is 11¢ below the best price 42¢ of MILD; the limit is 10¢.',
    ],
    ['collar, with a price better than the best', inputOf({ limitPrice: 2n * CENT }), factsOf(), undefined],
  ])('%s', (_name, input, facts, expected) => {
    expect(detailOf(input, facts)).toBe(expected);
  });

  it('refuses everything that it covers if it is 0', () => {
    for (const name of ['maxOrderContracts', 'maxPositionContracts', 'maxOpenOrders'] as const)
      expect(detailOf(inputOf({ contracts: 1 }), limits({ [name]: 0 }))).toBeDefined();
    for (const name of ['maxOrderCost', 'maxEventLoss', 'maxDailyLoss'] as const)
      expect(detailOf(inputOf({ contracts: 1 }), limits({ [name]: 0n }))).toBeDefined();
    expect(detailOf(inputOf({ limitPrice: 46n * CENT }), limits({ priceCollar: 0n }))).toMatch(
      /^price_collar/,
    );
    expect(detailOf(inputOf({ limitPrice: 45n * CENT }), limits({ priceCollar: 0n }))).toBeUndefined();
  });

  it('compares the price with the venue’s book if paper orders have emptied ours', () => {
    const empty = { yes: [], no: [] };
    expect(detailOf(inputOf({ limitPrice: 55n * CENT }, { book: empty }))).toBeUndefined();
    expect(detailOf(inputOf({ limitPrice: 56n * CENT }, { book: empty }))).toMatch(/^price_collar/);
    const snapshot = withData({ books: new Map() });
    expect(detailOf(inputOf({}, { book: empty, snapshot }))).toBe(
      'price_collar: there are no asks for yes contracts of MILD, so there is nothing to compare the limit price with.',
    );
  });

  it('includes the holding: a sale beyond it and pending sales is refused', () => {
    expect(detailOf(inputOf(sale))).toBe(
      'not_held: this order would sell 10 yes contracts of MILD, of which 0 are held and not being sold already.',
    );
    const facts = factsOf({
      positions: [held('MILD', 'yes', 10, '4')],
      pending: [pending('sell', 'MILD', 'yes', 1, 40)],
    });
    expect(detailOf(inputOf(sale), facts)).toMatch(/^not_held: .* of which 9 are held/);
  });
});

describe('the loss of an event', () => {
  const check = (contracts: number, limit: bigint, facts: Partial<RiskFacts>, ask = {}) =>
    detailOf(inputOf({ contracts, ...ask }), { ...limits({ maxEventLoss: limit * DOLLAR }), ...facts });

  it('is the whole cost if the bracket may lose', () => {
    // 100 at 50 cents: 50.00 plus a fee of 1.75.
    expect(check(100, 52n, {})).toBeUndefined();
    expect(check(100, 51n, {})).toBe(
      `max_event_loss: with this order KXHIGHNY-26NOV21 could lose $51.75 in its worst outcome ($0.00 without it); the limit is $51.00.`,
    );
  });

  it('is smaller if another bracket pays in that outcome', () => {
    // 100 YES of COLD were bought for $30. If COLD or MILD wins: 100 − 30 − 51.75; if WARM wins: −81.75.
    const cold = held('COLD', 'yes', 100, '30');
    expect(check(100, 81n, { positions: [cold] })).toMatch(/could lose \$81\.75 .*\(\$30\.00 without it\)/);
    expect(check(100, 82n, { positions: [cold] })).toBeUndefined();
    // With 100 YES of WARM for $20 as well, one of the three always pays: 100 − 101.75.
    const warm = held('WARM', 'yes', 100, '20');
    expect(check(100, 2n, { positions: [cold, warm] })).toBeUndefined();
    expect(check(100, 1n, { positions: [cold] })).toMatch(/\$81\.75/);
  });

  it('does not block a hedge when the limit is used up', () => {
    // 500 NO of COLD for $450 lose everything if COLD wins, and ten YES of MILD then lose another 5.175.
    const positions = [held('COLD', 'no', 500, '450')];
    expect(check(10, 100n, { positions })).toMatch(/could lose \$455\.1750 .*\(\$450\.00 without it\)/);
    // 501 YES of COLD cost 225.45 plus a fee of 8.68. If COLD wins: 501 − 234.13 − 450; otherwise: 500 − 450 − 234.13.
    expect(check(501, 100n, { positions }, { ticker: 'COLD', limitPrice: 45n * CENT })).toBeUndefined();
  });

  it('allows for an unknown bracket', () => {
    // WARM is not listed, so 100 YES of COLD and 100 YES of MILD may both lose.
    const snapshot = snapshotOf(markets.slice(0, 2));
    const facts = { ...limits({ maxEventLoss: 81n * DOLLAR }), positions: [held('COLD', 'yes', 100, '30')] };
    expect(detailOf(inputOf({ contracts: 100 }, { snapshot }), facts)).toMatch(/could lose \$81\.75/);
    // A held market that is not listed counts as a separate outcome.
    const gone = { ...facts, positions: [held('GONE', 'no', 100, '60')] };
    // If GONE wins: −60 − 51.75.
    expect(detailOf(inputOf({ contracts: 100 }), gone)).toMatch(/could lose \$111\.75/);
  });

  it('counts the gross cost of contracts that close pairs, not just the change in balance', () => {
    // 100 NO of MILD were bought for $55. 200 YES at 50 cost 103.50; closing the pairs returns 100, so the balance
    // drops by 3.50.
    const facts = { positions: [held('MILD', 'no', 100, '55')] };
    const input = inputOf({ contracts: 200 }, { worstCost: 3_500_000n });
    const limited = (limit: bigint) => ({ ...limits({ maxEventLoss: limit * DOLLAR }), ...facts });
    // If COLD wins: 100 − 55 − 103.50 = −58.50. If MILD wins: −55 + 200 − 103.50 = +41.50. Without the order: −55.
    expect(detailOf(input, limited(58n))).toMatch(/could lose \$58\.50 .*\(\$55\.00 without it\)/);
    expect(detailOf(input, limited(59n))).toBeUndefined();
    // Even an order that takes nothing from the balance opens a position.
    const free = inputOf({ contracts: 110 }, { worstCost: 0n });
    expect(detailOf(free, { ...limits({ maxPositionContracts: 9 }), ...facts })).toMatch(
      /make 10 yes contracts/,
    );
    expect(detailOf(free, { ...limits({ maxPositionContracts: 10 }), ...facts })).toBeUndefined();
  });

  it('ignores other events', () => {
    const positions = [held('COLD', 'yes', 100, '400', 'KXHIGHMIA-26NOV21')];
    expect(check(100, 52n, { positions })).toBeUndefined();
  });
});

describe('the daily loss', () => {
  const equity = (dollars: bigint, deposits = 0n) =>
    ({ kind: 'equity', equity: dollars * DOLLAR, deposits: deposits * DOLLAR }) as const;

  it('is the fall in the account’s value since midnight', () => {
    expect(detailOf(inputOf(), factsOf({ cash: 801n * DOLLAR }))).toBeUndefined();
    const lost = factsOf({ cash: 800n * DOLLAR });
    expect(detailOf(inputOf(), lost)).toBe(
      'max_daily_loss: $200.00 were lost since midnight UTC; the limit is $200.00. Only orders that reduce positions are accepted.',
    );
  });

  it('values positions at their current sale proceeds after fees', () => {
    // 250 YES: 100 at 42 and 100 at 41 bring 83.00, less fees of 1.7052 and 1.6933: 79.6015. The other 50 have no bid.
    const positions = [held('MILD', 'yes', 250, '100')];
    const facts = (cash: bigint) => factsOf({ positions, cash });
    expect(detailOf(inputOf({ ticker: 'WARM' }), facts(720n * DOLLAR + 398_600n))).toBeUndefined();
    expect(detailOf(inputOf({ ticker: 'WARM' }), facts(720n * DOLLAR + 398_500n))).toMatch(/^max_daily_loss/);
  });

  it('excludes deposits and withdrawals', () => {
    expect(
      detailOf(inputOf(), factsOf({ cash: 1500n * DOLLAR, dayStart: equity(1000n, 600n) })),
    ).toBeUndefined();
    expect(detailOf(inputOf(), factsOf({ cash: 1300n * DOLLAR, dayStart: equity(1000n, 600n) }))).toMatch(
      /^max_daily_loss: \$300\.00/,
    );
    expect(
      detailOf(inputOf(), factsOf({ cash: 500n * DOLLAR, dayStart: equity(1000n, -500n) })),
    ).toBeUndefined();
  });

  it('is measured from cost if the account was not valued before midnight', () => {
    // The holding cost 100 and is worth 79.6015, a loss of 20.3985; with 179.6015 of fees and losses, the total is 200.
    const facts = (spent: bigint) =>
      factsOf({
        positions: [held('MILD', 'yes', 250, '100')],
        dayStart: { kind: 'cost', spent: spent * 100n },
      });
    expect(detailOf(inputOf({ ticker: 'WARM' }), facts(1_796_014n))).toBeUndefined();
    expect(detailOf(inputOf({ ticker: 'WARM' }), facts(1_796_015n))).toMatch(/^max_daily_loss: \$200\.00/);
  });

  it('values a market at nothing if the venue no longer lists it', () => {
    const facts = { ...limits({ maxEventLoss: 999n * DOLLAR }), cash: 750n * DOLLAR };
    const detail = detailOf(inputOf(), { ...facts, positions: [held('GONE', 'no', 100, '60')] });
    expect(detail).toMatch(/\$250\.00 were lost/);
  });
});

it('an order that only reduces is exempt from the cost, position, event and daily limits', () => {
  const facts: RiskFacts = {
    ...limits({ maxOrderCost: 0n, maxPositionContracts: 0, maxEventLoss: 0n, maxDailyLoss: 0n }),
    cash: 0n,
    positions: [held('MILD', 'yes', 10, '4')],
  };
  expect(detailOf(inputOf(sale), facts)).toBeUndefined();
  expect(detailOf(inputOf({ side: 'no', limitPrice: 60n * CENT }), facts)).toBeUndefined();
  expect(detailOf(inputOf({ side: 'no', limitPrice: 60n * CENT, contracts: 11 }), facts)).toMatch(
    /^max_order_cost/,
  );
});

describe('the gate refuses on missing or invalid values', () => {
  const missing = <T extends object>(whole: T): [string, T][] =>
    Object.keys(whole).flatMap((name) =>
      [undefined, Number.NaN, null].map((value): [string, T] => [
        `${name} is ${value}`,
        { ...whole, [name]: value },
      ]),
    );

  it.each(missing(factsOf()))('for facts where %s', (_name, facts) => {
    expect(detailOf(inputOf(), facts)).toBeDefined();
  });

  it.each(missing(defaultLimits))('for limits where %s', (_name, broken) => {
    expect(detailOf(inputOf(), factsOf({ limits: broken }))).toBeDefined();
  });

  it.each(missing(factsOf().switches))('for switches where %s', (_name, switches) => {
    expect(detailOf(inputOf(), factsOf({ switches }))).toBeDefined();
  });

  it('for a switch in an unknown state', () => {
    const own = { state: 'closed' as 'halt', reason: null };
    expect(detailOf(inputOf(), switched({ own }))).toMatch(/^unknown_state/);
  });

  const { isTrading, fetchedAt, books, feeRules, markets: listed } = snapshotOf().data;
  const pieces: [string, Partial<RiskInput>][] = [
    ...missing({ worstCost: 5n * DOLLAR, at, snapshot: snapshotOf(), market: markets[1]! }),
    ['a negative cost', { worstCost: -1n }],
    ['an unknown fee', { snapshot: withData({ feeRules: new Map() }) }],
    ['an impossible time', { at: new Date(Number.NaN) }],
    ['another order’s market', { market: markets[0]! }],
    ['an impossible skew', { snapshot: withData({ clockSkewMs: Number.NaN }) }],
    ['a null skew', { snapshot: withData({ clockSkewMs: null as never }) }],
    ['no source', { snapshot: snapshotOf(markets, { sources: [] }) }],
    ['a snapshot without a valid time', { snapshot: snapshotOf(markets, { asOf: new Date(Number.NaN) }) }],
    ...missing({ isTrading }).map(([name, value]): [string, Partial<RiskInput>] => [
      name,
      { snapshot: withData({ fetchedAt, books, feeRules, markets: listed, ...value }) },
    ]),
  ];
  it.each(pieces)('for an order with %s', (_name, values) => {
    expect(detailOf(inputOf({}, values))).toBeDefined();
  });

  it.each([0, -1, 1.505, Number.NaN, Number.POSITIVE_INFINITY])(
    'for an order of %s contracts',
    (contracts) => {
      expect(detailOf(inputOf({}, { order: { ...inputOf().order, contracts } }))).toMatch(/^unknown_state/);
    },
  );

  it('for a position that cannot be valued', () => {
    const facts = factsOf({ positions: [held('WARM', 'yes', 1, '0.5')] });
    const half = new Map([...books].filter(([ticker]) => ticker !== 'WARM'));
    expect(detailOf(inputOf({}, { snapshot: withData({ books: half }) }), facts)).toMatch(/^unknown_state/);
    expect(detailOf(inputOf({}, { snapshot: withData({ feeRules: new Map() }) }), facts)).toMatch(
      /^unknown_state/,
    );
    expect(detailOf(inputOf(), facts)).toBeUndefined();
  });

  it('for a position of NaN contracts', () => {
    const position = { ...held('MILD', 'yes', 1, '0.5'), contracts: Number.NaN };
    expect(detailOf(inputOf(), factsOf({ positions: [position] }))).toBeDefined();
    expect(detailOf(inputOf(sale), factsOf({ positions: [position] }))).toBeDefined();
  });
});
