import { describe, expect, it } from 'vitest';
import { BALANCE_STEP, DOLLAR } from '../../../src/markets/market/money.js';
import { sizeEvent, type SizedEvent } from '../../../src/markets/sizing/event.js';
import { paidFor } from '../../../src/markets/sizing/fund.js';
import type { EventToSize } from '../../../src/markets/sizing/model.js';
import { randomOf } from '../support/joint-arbitraries.js';
import { buyAll, dollars, profitIf, quoteOf, randomEvent, toEvent, toMarket } from '../support/sizing.js';

const paidOf = ({ markets }: EventToSize) => markets.map(({ held, feeRule }) => paidFor(held, feeRule));
const bought = ({ purchases }: SizedEvent) =>
  purchases.map(({ ticker, side, contracts }) => `${ticker} ${side} ${contracts}`);
const reasonFor = ({ refused }: SizedEvent, ticker: string, side: string) =>
  refused.find((refusal) => refusal.ticker === ticker && refusal.side === side)?.reason;

describe('the sizes of an event', () => {
  it("are a quarter of the general optimum's shares, rounded down", () => {
    // Asks and bids of an event that was also solved with a general-purpose optimiser; a quarter of the $10,000
    // bankroll is staked.
    const p = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];
    const asks = [3, 12, 27, 30, 20, 13];
    const bids = [2, 11, 25, 27, 18, 11];
    const much = 1_000_000;
    const markets = p.map((probability, i) =>
      toMarket(`M${i}`, probability, [[bids[i]!, much]], [[100 - asks[i]!, much]]),
    );
    const cash = dollars(10_000);
    const sized = sizeEvent(toEvent(markets, { bankroll: cash, cash, marketRoom: cash, eventRoom: cash }));
    // For YES, $2,500 · 0.01841 / $0.032037 = 1,436.6 contracts; 0.024384 / 0.127392 gives 478.5, and 0.07016 /
    // 0.283797 gives 618.0 (618.04 with 0.0701597). NO at 0.82 costs 0.830332: 0.231492 gives 696.9. NO at 0.89 costs
    // 0.896853: 0.449604 gives 1,253.2.
    const expected = [1_436, 478, 618, 696, 1_253];
    expect(sized.purchases.map(({ ticker, side }) => ticker + side)).toEqual([
      'M0yes',
      'M1yes',
      'M2yes',
      'M4no',
      'M5no',
    ]);
    // Buying a few contracts fewer can save a cent of rounding.
    sized.purchases.forEach(({ contracts }, i) => {
      expect(contracts).toBeLessThanOrEqual(expected[i]!);
      expect(contracts).toBeGreaterThan(expected[i]! - 4);
    });
    expect(Math.abs(sized.growth - 0.03844731)).toBeLessThan(1e-5);
    const [first] = sized.purchases;
    expect(first!.fullKelly).toBeCloseTo(0.01841, 6);
    expect(first!.fractionalKelly).toBeCloseTo(0.01841 / 4, 6);
    expect(reasonFor(sized, 'M3', 'yes')).toBe('after the fee it costs 3.5 points more than it is worth');
  });

  it('include purchases not worth their cost if they reduce the risk of the others, and say so', () => {
    const markets = [
      toMarket('A', 0.6, [], [[55, 100_000]]),
      toMarket('B', 0.3, [], [[69, 100_000]]),
      toMarket('C', 0.1, [], [[50, 100_000]]),
    ];
    const hedge = sizeEvent(toEvent(markets)).purchases.find(({ ticker }) => ticker === 'B');
    expect(hedge).toMatchObject({ side: 'yes', isHedge: true });
    expect(hedge!.expectedValue).toBeLessThan(0n);
  });

  it('close holdings where the other side is cheap, even without cash', () => {
    const held = { side: 'yes', contracts: 40, cents: 50 } as const;
    // YES is worth 0.2 and can be sold at 0.4, so NO costs 0.6 and wins with probability 0.8.
    const markets = [toMarket('A', 0.2, [[40, 1_000]], [], held), toMarket('B', 0.8, [], [])];
    const sized = sizeEvent(toEvent(markets, { cash: 0n }));
    expect(bought(sized)).toEqual(['A no 40']);
    expect(sized.purchases[0]).toMatchObject({ closing: 40 });
  });

  it('name the limit on each size and the reason against each side', () => {
    const markets = [toMarket('A', 0.6, [[30, 5]], [[60, 100_000]]), toMarket('B', 0.4, [[10, 5]], [])];
    const sized = sizeEvent(toEvent(markets, { marketRoom: dollars(10) }));
    // $10.00 at $0.40 plus $0.0168 per contract buys 23.99 contracts; the other side of B has no asks.
    expect(sized.purchases[0]).toMatchObject({
      ticker: 'A',
      side: 'yes',
      limitedBy: 'market',
      contracts: 23,
    });
    expect(reasonFor(sized, 'A', 'no')).toBe('after the fee it costs 31.5 points more than it is worth');
    expect(reasonFor(sized, 'B', 'yes')).toBe('there are no asks');
    const poor = sizeEvent(toEvent(markets, { bankroll: dollars(1), cash: dollars(1) }));
    expect(poor.purchases).toEqual([]);
    expect(reasonFor(poor, 'A', 'yes')).toBe('its stake is less than one contract costs');
    const none = sizeEvent(toEvent(markets, { eventRoom: 0n }));
    expect(reasonFor(none, 'A', 'yes')).toBe('the cap of the event is used up');
  });

  it('are empty for a crossed book, an unknown fee, no bankroll or invalid probabilities', () => {
    const good = toMarket('A', 0.6, [], [[60, 1_000]]);
    const other = toMarket('B', 0.4, [], []);
    const crossed = toMarket('A', 0.6, [[50, 9]], [[60, 9]]);
    expect(reasonFor(sizeEvent(toEvent([crossed, other])), 'A', 'yes')).toBe('its order book is crossed');
    const free = { ...good, feeRule: undefined };
    expect(reasonFor(sizeEvent(toEvent([free, other])), 'A', 'yes')).toBe('its fee is not known');
    for (const [event, reason] of [
      [toEvent([good, other], { bankroll: 0n }), 'there is no bankroll'],
      [toEvent([good, { ...other, probability: 0.3 }]), 'the probabilities of the event do not sum to one'],
      [
        toEvent([good, { ...other, probability: Number.NaN }]),
        'the probabilities of the event do not sum to one',
      ],
    ] as const) {
      const sized = sizeEvent(event);
      expect(sized).toMatchObject({ purchases: [], stake: 0n, growth: 0, worstCase: 0n });
      expect(reasonFor(sized, 'A', 'yes')).toBe(reason);
    }
    const bookless = sizeEvent(toEvent([{ ...good, book: undefined }, other]));
    expect(bookless.refused.filter(({ ticker }) => ticker === 'A')).toEqual([]);
  });

  it('are empty if holdings exceed the share that the bankroll may lose', () => {
    const held = { side: 'yes', contracts: 1_000, cents: 90 } as const;
    const sized = sizeEvent(toEvent([toMarket('A', 0.5, [], [[60, 10]], held), toMarket('B', 0.5, [], [])]));
    expect(sized.purchases).toEqual([]);
    expect(reasonFor(sized, 'A', 'yes')).toMatch(/^the holdings in the event exceed/);
  });
});

describe('the sizes of random events', () => {
  const random = randomOf(12);
  const events = Array.from({ length: 240 }, (_, run) =>
    randomEvent(random, [30, 100, 1_000, 10_000][run % 4]!, { hasHeld: run % 2 === 0, hasCaps: run % 3 > 0 }),
  );
  const sizes = events.map(sizeEvent);

  it("are whole contracts at the exact cost of the book and the venue's fee", () => {
    events.forEach((event, i) => {
      const { purchases, stake } = sizes[i]!;
      for (const purchase of purchases) {
        const quote = quoteOf(event, purchase);
        expect(quote.filledContracts).toBe(purchase.contracts);
        expect([-quote.balanceChange, quote.fees]).toEqual([purchase.stake, purchase.fee]);
        expect(purchase.stake % BALANCE_STEP).toBe(0n);
      }
      expect(purchases.reduce((sum, purchase) => sum + purchase.stake, 0n)).toBe(stake);
    });
    expect(sizes.filter(({ purchases }) => purchases.length > 1).length).toBeGreaterThan(150);
  });

  it('keep purchases that close pairs when caps leave less room for whole contracts', () => {
    const drawn = randomOf(13);
    const tight = Array.from({ length: 225 }, (_, run) =>
      randomEvent(drawn, [30, 100, 1_000, 10_000][run % 4]!, {
        hasHeld: run % 2 === 0,
        hasCaps: run % 3 > 0,
      }),
    ).at(-1)!;
    const sized = sizeEvent(tight);
    expect(sized.purchases.some(({ closing }) => closing > 0)).toBe(true);
    // Regression: sizing used to give up the closing purchases first and then bought nothing.
    expect(sized.growth).toBeGreaterThan(1e-3);
  });

  it('never reduce growth, are proved optimal, and lose at most the stated worst case', () => {
    events.forEach((event, i) => {
      const sized = sizes[i]!;
      expect(sized.gap).toBeLessThan(1e-9);
      expect(sized.growth).toBeGreaterThanOrEqual(0);
      const losses = event.markets.map((_, winner) => -profitIf(event, sized, winner));
      const worst = losses.reduce((most, loss) => (loss > most ? loss : most), 0n);
      expect(sized.worstCase).toBe(worst);
    });
  });

  it('stay within cash and caps to the cent, including holdings', () => {
    events.forEach((event, i) => {
      const { purchases } = sizes[i]!;
      const before = paidOf(event);
      expect(buyAll(event, sizes[i]!, before).cash).toBeGreaterThanOrEqual(0n);
      const opened = purchases.filter(({ closing }) => closing === 0);
      for (const { ticker, stake } of opened) {
        const held = before[event.markets.findIndex((market) => market.ticker === ticker)]!;
        expect(held + stake).toBeLessThanOrEqual(event.marketRoom);
      }
      if (opened.length === 0 || opened.length < purchases.length) return;
      const staked = [...before, ...opened.map(({ stake }) => stake)].reduce(
        (sum, micros) => sum + micros,
        0n,
      );
      expect(staked).toBeLessThanOrEqual(event.eventRoom);
    });
  });

  it('are empty when sized again after buying everything', () => {
    events.slice(0, 160).forEach((event, i) => {
      const again = sizeEvent(buyAll(event, sizes[i]!, paidOf(event)));
      expect(bought(again)).toEqual([]);
    });
  });

  it('do not depend on the order of the markets', () => {
    events.slice(0, 80).forEach((event, i) => {
      const reversed = sizeEvent({ ...event, markets: event.markets.toReversed() });
      expect(bought(reversed).toSorted()).toEqual(bought(sizes[i]!).toSorted());
    });
  });

  it('are deterministic and mention every side of every market once', () => {
    events.slice(0, 40).forEach((event, i) => {
      expect(sizeEvent(event)).toEqual(sizes[i]);
      const sides = [...sizes[i]!.purchases, ...sizes[i]!.refused].map(
        ({ ticker, side }) => `${ticker} ${side}`,
      );
      expect(new Set(sides).size).toBe(12);
      expect(sides).toHaveLength(12);
    });
  });

  it('grow the wealth at stake about as much as fractional contracts would', () => {
    // With bankroll and depth a hundred times as large, one contract acts like a hundredth of a contract.
    const whole = events.filter((_, i) => i % 4 === 3).slice(0, 30);
    const scale = (amount: bigint) => amount * 100n;
    for (const event of whole) {
      const finer = sizeEvent({
        ...event,
        bankroll: scale(event.bankroll),
        cash: scale(event.cash),
        marketRoom: scale(event.marketRoom),
        eventRoom: scale(event.eventRoom),
        markets: event.markets.map((market) => ({
          ...market,
          book: {
            yes: market.book!.yes.map(({ price, contracts }) => ({ price, contracts: 100 * contracts })),
            no: market.book!.no.map(({ price, contracts }) => ({ price, contracts: 100 * contracts })),
          },
          held: market.held && {
            ...market.held,
            contracts: 100 * market.held.contracts,
            cost: 100n * market.held.cost,
          },
        })),
      });
      const { growth } = sizeEvent(event);
      expect(growth).toBeLessThan(finer.growth * 1.0001 + 1e-7);
      expect(growth).toBeGreaterThan(finer.growth * 0.9 - 1e-5);
    }
  });

  it('buy a sure dollar only up to the fund', () => {
    const sure = [toMarket('A', 1, [], [[10, 1_000_000]]), toMarket('B', 0, [], [])];
    const { purchases, worstCase } = sizeEvent(toEvent(sure));
    // A quarter of $1,000 at $0.90 plus $0.0063 per contract.
    expect(purchases[0]!.contracts).toBe(275);
    expect(worstCase).toBeLessThanOrEqual(250n * DOLLAR);
  });
});
