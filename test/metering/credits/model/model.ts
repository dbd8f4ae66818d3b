/**
 * The rules of credits in plain code: no SQL, and nothing shared with the service. Amounts are integers of 10⁻²⁰
 * credits, because a quantity has 3 decimal places here, a price 12, and a rollover in percent adds 2. Times are in ms.
 */
export type Credits = bigint;

const PLACES = 20;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** How long an expired grant is retained: events may arrive up to 7 days late, and a day is added as a margin. */
const WAITS = 8 * DAY;

export function toCredits(decimal: string): Credits {
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(decimal)!;
  if (fraction.length > PLACES) throw new Error(`${decimal} has more than ${PLACES} places`);
  return BigInt(`${sign}${whole}${fraction.padEnd(PLACES, '0')}`);
}

const costOf = (quantity: number, price: string): Credits =>
  (toCredits(price) * BigInt(Math.round(quantity * 1000))) / 1000n;

export interface Grant {
  key: string;
  amount: Credits;
  priority: number;
  starts: number;
  /** End of the grant, which a rollover postpones; Infinity if the grant never expires. */
  ends: number;
  /** Undefined if the grant is for every product. */
  products: number[] | undefined;
  roll: { percent: number; days: number } | undefined;
  /** The end before any rollover, and the extra ms that a rollover adds. */
  first: { ends: number; extra: number };
  rest: Credits;
  /** The amount that expired or was forfeited. */
  lost: Credits;
  isVoided: boolean;
  /** True if credits were left when the grant last ended. */
  hasExpired: boolean;
}

/** A part of an event's cost and the time when it was burned. */
interface Share {
  at: number;
  cost: Credits;
}

export interface Event {
  key: string;
  product: number;
  quantity: number;
  at: number;
  receivedAt: number;
  price: string;
  model: string;
  subject: string;
  shares?: Share[];
}

export interface Hold {
  key: string;
  product: number;
  quantity: number;
  price: string;
  model: string;
  subject: string;
  expiresAt: number;
  state: 'held' | 'settled' | 'released';
}

interface Product {
  price: string;
  /** Prices by model. */
  prices: Record<string, string>;
  blocks: boolean;
}

interface Account {
  /** In order of creation. */
  grants: Grant[];
  /** By product, in the order in which the overdrafts began. */
  debts: Map<number, Credits>;
}

interface Demand {
  product: number;
  hour: number;
  cost: Credits;
}

const least = (a: Credits, b: Credits): Credits => (a < b ? a : b);

export const hourOf = (at: number): number => Math.floor(at / HOUR) * HOUR;

/** Sorts grants into burn order: lowest priority first, then earliest end, then oldest. */
const inOrder = (grants: readonly Grant[]): Grant[] =>
  grants
    .map((grant, age) => ({ grant, age }))
    .sort(
      (a, b) =>
        a.grant.priority - b.grant.priority ||
        (a.grant.ends === b.grant.ends ? a.age - b.age : a.grant.ends - b.grant.ends),
    )
    .map(({ grant }) => grant);

const appliesTo = ({ products }: Grant, product: number): boolean =>
  products === undefined || products.includes(product);

/** Receives each ledger entry: kind, product, source and amount. */
type Enter = (kind: string, product: string, from: string, amount: Credits) => void;

/** Brings an account up to `now`: grants roll over and expire, and open grants pay overdrafts. */
function settle({ grants, debts }: Account, now: number, enter: Enter): void {
  for (const grant of grants) {
    const { roll, rest, key } = grant;
    if (rest > 0n && roll && grant.ends <= now) {
      const kept = (rest * BigInt(roll.percent)) / 100n;
      enter('roll', '-', key, kept);
      lose(grant, rest - kept, 'expire', enter);
      grant.ends += roll.days * DAY;
      grant.roll = undefined;
    }
    if (grant.ends <= now - WAITS) {
      grant.hasExpired ||= grant.rest > 0n;
      lose(grant, grant.rest, 'expire', enter);
    }
  }
  for (const [product, debt] of debts) {
    let left = debt;
    for (const grant of inOrder(grants)) {
      if (grant.starts > now || grant.ends <= now || !appliesTo(grant, product)) continue;
      const part = least(left, grant.rest);
      if (part === 0n) continue;
      grant.rest -= part;
      left -= part;
      enter('repay', `p${product}`, grant.key, part);
    }
    if (left === 0n) debts.delete(product);
    else debts.set(product, left);
  }
}

function lose(grant: Grant, amount: Credits, kind: 'expire' | 'void', enter: Enter): void {
  if (amount === 0n) return;
  grant.rest -= amount;
  grant.lost += amount;
  enter(kind, '-', grant.key, amount);
}

/** Burns the cost of one hour's events. Any cost that no grant covers becomes an overdraft. */
function burn(account: Account, { product, hour, cost }: Demand, now: number, enter: Enter): void {
  let left = cost;
  for (const grant of inOrder(account.grants)) {
    if (grant.starts > now || grant.ends <= hour || !appliesTo(grant, product)) continue;
    const part = least(left, grant.rest);
    if (part === 0n) continue;
    grant.rest -= part;
    left -= part;
    enter('burn', `p${product}`, grant.key, part);
  }
  if (left === 0n) return;
  account.debts.set(product, (account.debts.get(product) ?? 0n) + left);
  enter('burn', `p${product}`, `p${product}`, left);
}

const copyOf = ({ grants, debts }: Account): Account => ({
  grants: grants.map((grant) => ({ ...grant })),
  debts: new Map(debts),
});

export class Model {
  now: number;
  products: Product[];
  events: Event[] = [];
  holds: Hold[] = [];
  /** Ledger sums by kind, product and source. */
  ledger = new Map<string, Credits>();
  /** Credits that each flush took for a product and hour, by source, net of credits given back. */
  private taken = new Map<string, Map<string, Credits>>();
  /** Overdraft repayments by grants, newest first. */
  private repaid: { product: string; key: string; at: number; amount: Credits }[] = [];
  private account: Account = { grants: [], debts: new Map() };

  constructor(now: number, products: Product[]) {
    this.now = now;
    this.products = products;
  }

  private readonly enter: Enter = (kind, product, from, amount) => {
    const name = `${kind} ${product} ${from}`;
    this.ledger.set(name, (this.ledger.get(name) ?? 0n) + amount);
    if (kind === 'repay' && amount > 0n) this.repaid.unshift({ product, key: from, at: this.now, amount });
  };

  private settle(): void {
    settle(this.account, this.now, this.enter);
  }

  priceOf(product: number, model: string): string {
    const { price, prices } = this.products[product]!;
    return prices[model] ?? price;
  }

  /**
   * Records the events of one request and burns their cost, in order of hour and then product.
   * @returns the overdrafts that the response reports: directly after the burn, before the next settlement lets open
   * grants pay them
   */
  record(events: Event[]): Map<number, Credits> {
    this.events.push(...events);
    const demands = new Map<string, Demand>();
    for (const { product, quantity, at, price } of events) {
      const hour = hourOf(at);
      const name = `${hour} ${product}`;
      const cost = (demands.get(name)?.cost ?? 0n) + costOf(quantity, price);
      demands.set(name, { product, hour, cost });
    }
    const costly = [...demands.values()]
      .filter(({ cost }) => cost > 0n)
      .sort((a, b) => a.hour - b.hour || a.product - b.product);
    if (costly.length === 0) return this.read().debts;
    this.settle();
    for (const demand of costly) this.take(demand);
    return new Map(this.account.debts);
  }

  private take(demand: Demand): void {
    const flush = nameOfFlush(this.now, demand.product, demand.hour);
    const own = this.taken.get(flush) ?? new Map<string, Credits>();
    this.taken.set(flush, own);
    burn(this.account, demand, this.now, (kind, product, from, amount) => {
      this.enter(kind, product, from, amount);
      own.set(from, (own.get(from) ?? 0n) + amount);
    });
  }

  /** Sorts repayments newest first; those with the same time are in reverse burn order. */
  private orderRepaid(): void {
    const order = inOrder(this.account.grants.map((grant) => ({ ...grant, ends: grant.first.ends }))).map(
      ({ key }) => key,
    );
    this.repaid.sort((a, b) => b.at - a.at || order.indexOf(b.key) - order.indexOf(a.key));
  }

  /** Corrects an event to each quantity in turn. */
  correct(event: Event, quantities: number[]): void {
    this.orderRepaid();
    const { product, price } = event;
    const hour = hourOf(event.at);
    const shares = (event.shares ??= [{ at: event.receivedAt, cost: costOf(event.quantity, price) }]);
    for (const quantity of quantities) {
      const change = costOf(quantity, price) - costOf(event.quantity, price);
      event.quantity = quantity;
      if (change === 0n) continue;
      this.settle();
      if (change > 0n) {
        this.take({ product, hour, cost: change });
        shares.push({ at: this.now, cost: change });
        continue;
      }
      for (let left = -change; left > 0n;) {
        const last = shares.at(-1)!;
        const part = least(left, last.cost);
        last.cost -= part;
        left -= part;
        if (last.cost === 0n) shares.pop();
        this.giveBack(product, last.at, hour, part);
      }
      this.settle();
    }
  }

  /** Gives credits back in reverse order: first reduces the overdraft, then refills the grants, last burned first. */
  private giveBack(product: number, at: number, hour: number, cost: Credits): void {
    const own = this.taken.get(nameOfFlush(at, product, hour))!;
    const debtor = `p${product}`;
    const endOf = ({ first }: Grant) => first.ends + (at >= first.ends ? first.extra : 0);
    const order = inOrder(this.account.grants.map((grant) => ({ ...grant, ends: endOf(grant) })));
    let left = cost;
    for (const from of [debtor, ...order.toReversed().map(({ key }) => key)]) {
      const part = least(left, own.get(from) ?? 0n);
      if (part === 0n) continue;
      left -= part;
      own.set(from, own.get(from)! - part);
      this.enter('return', debtor, from, part);
      if (from === debtor) this.lowerDebt(product, part);
      else this.raise(from, part);
    }
    if (left > 0n) throw new Error(`${left} more were given back than burned`);
  }

  /** Lowers an overdraft. Any excess undoes repayments, newest first, and then forgiven amounts. */
  private lowerDebt(product: number, amount: Credits): void {
    const debt = this.account.debts.get(product) ?? 0n;
    let left = amount - least(amount, debt);
    if (amount < debt) this.account.debts.set(product, debt - amount);
    else this.account.debts.delete(product);
    for (const payment of this.repaid.filter((one) => one.product === `p${product}`)) {
      const part = least(left, payment.amount);
      if (part === 0n) continue;
      left -= part;
      payment.amount -= part;
      this.enter('repay', `p${product}`, payment.key, -part);
      this.raise(payment.key, part);
    }
    if (left > 0n) this.enter('forgive', `p${product}`, '-', -left);
  }

  private raise(key: string, amount: Credits): void {
    const grant = this.account.grants.find((one) => one.key === key)!;
    grant.rest += amount;
    if (grant.isVoided) lose(grant, amount, 'void', this.enter);
  }

  add(grant: Omit<Grant, 'first' | 'rest' | 'lost' | 'isVoided' | 'hasExpired'>): void {
    this.settle();
    const { ends, roll, amount: rest } = grant;
    const first = { ends, extra: (roll?.days ?? 0) * DAY };
    this.account.grants.push({ ...grant, first, rest, lost: 0n, isVoided: false, hasExpired: false });
    this.settle();
  }

  /** @returns false if there was nothing to void */
  void(key: string): boolean {
    const status = this.read().grants.find((grant) => grant.key === key)!.status;
    if (status === 'voided') return true;
    if (status === 'spent' || status === 'expired') return false;
    this.settle();
    const grant = this.account.grants.find((one) => one.key === key)!;
    lose(grant, grant.rest, 'void', this.enter);
    grant.isVoided = true;
    return true;
  }

  forgive(product: number): void {
    if (!this.read().debts.has(product)) return;
    this.settle();
    this.enter('forgive', `p${product}`, '-', this.account.debts.get(product)!);
    this.account.debts.delete(product);
  }

  isHeld = ({ state, expiresAt }: Hold): boolean => state === 'held' && expiresAt > this.now;

  /** Returns the credits that remain for a product after a trial burn of all open holds in order of creation. */
  roomFor(product: number): Credits {
    const account = copyOf(this.account);
    settle(account, this.now, () => undefined);
    for (const hold of this.holds.filter(this.isHeld)) {
      const cost = costOf(hold.quantity, hold.price);
      burn(account, { product: hold.product, hour: this.now, cost }, this.now, () => undefined);
    }
    const open = account.grants
      .filter((grant) => grant.starts <= this.now && grant.ends > this.now && appliesTo(grant, product))
      .reduce((sum, { rest }) => sum + rest, 0n);
    const room = open - (account.debts.get(product) ?? 0n);
    return room > 0n ? room : 0n;
  }

  /**
   * Returns the required and the available credits if the product blocks and a quantity costs more than is available;
   * otherwise undefined.
   */
  lacks(
    product: number,
    quantity: number,
    model: string,
  ): { required: Credits; available: Credits } | undefined {
    const required = costOf(quantity, this.priceOf(product, model));
    if (!this.products[product]!.blocks || required === 0n) return undefined;
    const available = this.roomFor(product);
    return required > available ? { required, available } : undefined;
  }

  /** Returns the account as the API reports it: as of now, without storing the result. */
  read() {
    const account = copyOf(this.account);
    settle(account, this.now, () => undefined);
    const { now } = this;
    const grants = account.grants.map((grant) => {
      const { key, rest, amount, lost, ends, starts, isVoided, hasExpired } = grant;
      const isOver = ends <= now;
      const status = isVoided
        ? 'voided'
        : rest === 0n
          ? hasExpired
            ? 'expired'
            : 'spent'
          : isOver
            ? 'expired'
            : starts > now
              ? 'scheduled'
              : 'open';
      const remaining = status === 'open' || status === 'scheduled' ? rest : 0n;
      return { key, status, burned: amount - rest - lost, remaining };
    });
    const held = this.holds
      .filter(this.isHeld)
      .reduce((sum, { quantity, price }) => sum + costOf(quantity, price), 0n);
    const open = grants
      .filter(({ status }) => status === 'open')
      .reduce((sum, { remaining }) => sum + remaining, 0n);
    const debts = [...account.debts.values()].reduce((sum, debt) => sum + debt, 0n);
    return { balance: open - debts, held, debts: account.debts, grants };
  }
}

const nameOfFlush = (at: number, product: number, hour: number): string => `${at} ${product} ${hour}`;
