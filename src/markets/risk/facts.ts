import { DAY_MS } from '../../core/time.js';
import type { Orm } from '../../core/db/client.js';
import type { tradingOrders } from '../ledger/orders-table.js';
import type { tradingPositions } from '../ledger/portfolio-table.js';
import { switchStates } from '../ledger/risk-table.js';
import type { Side } from '../market/book.js';
import { parseCount } from '../market/contracts.js';
import type { Micros } from '../market/money.js';
import { marketAccesses, type MarketAccess } from '../../accounts/organizations/table.js';
import { toEffectiveLimits, type DeclaredLimits, type RiskLimits } from './limits.js';
import {
  selectRisk,
  type RiskAccount,
  type StoredPermissions,
  type StoredRisk,
  type StoredSwitch,
  type SwitchInput,
} from './queries.js';

export const midnightOf = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS);

/**
 * One statement; undefined without an account.
 * @param opensWith cash of an account that is not open yet, for previews
 * @throws RangeError for inconsistent records
 */
export async function readRiskFacts(
  orm: Orm,
  { at, ...account }: RiskAccount & { at: Date },
  opensWith?: Micros,
): Promise<RiskFacts | undefined> {
  const found = await selectRisk(orm, { ...account, midnight: midnightOf(at) });
  if (!found.isHere && opensWith === undefined) return undefined;
  const startingCash = String(opensWith);
  const stored = found.isHere
    ? found
    : { ...found, cash: startingCash, deposits: startingCash, isFromToday: true };
  return {
    ...toPermissions(stored),
    limits: toEffectiveLimits(toDeclared(stored.limits)),
    cash: toMicros(stored.cash),
    positions: stored.positions.map((one) => ({
      ...one,
      side: toSide(one.side),
      contracts: toContracts(one.contracts),
      cost: toMicros(one.cost),
    })),
    pending: stored.pending.map((one) => ({
      ...one,
      side: toSide(one.side),
      action: one.action === 'sell' ? 'sell' : 'buy',
      contracts: toContracts(one.contracts),
      limitPrice: toMicros(one.limitPrice),
    })),
    dayStart: toDayStart(stored),
  };
}

/** @throws RangeError for inconsistent records */
export const toPermissions = ({ access, service, switches }: StoredPermissions): Permissions => ({
  access: toAccess(access),
  switches: {
    service: toSwitch(service),
    operator: toSwitch(switches?.operator),
    own: toSwitch(switches?.own),
  },
});

function toDayStart({ equity, deposits, isFromToday, spent }: StoredRisk): DayStart {
  if (equity !== null) return { kind: 'equity', equity: toMicros(equity), deposits: toMicros(deposits) };
  // An account opened today started the day with nothing.
  if (isFromToday) return { kind: 'equity', equity: 0n, deposits: toMicros(deposits) };
  return { kind: 'cost', spent: toMicros(spent) };
}

function toAccess(stored: string | null): MarketAccess {
  const access = marketAccesses.find((one) => one === stored);
  if (!access) throw new RangeError(`${stored} is not an access to markets`);
  return access;
}

function toSwitch(stored: StoredSwitch | null | undefined): SwitchInput {
  if (!stored) return { state: 'open', reason: null };
  const state = switchStates.find((one) => one === stored.state);
  if (!state) throw new RangeError(`${stored.state} is not a switch state`);
  return { state, reason: stored.reason };
}

function toDeclared(limits: StoredRisk['limits']): DeclaredLimits {
  const contracts = (name: string) => toNullable(limits?.[name], toContracts);
  const micros = (name: string) => toNullable(limits?.[name], toMicros);
  return {
    maxOrderContracts: contracts('maxOrderContracts'),
    maxOrderCost: micros('maxOrderCost'),
    maxPositionContracts: contracts('maxPositionContracts'),
    maxEventLoss: micros('maxEventLoss'),
    maxDailyLoss: micros('maxDailyLoss'),
    maxOpenOrders: contracts('maxOpenOrders'),
    priceCollar: micros('priceCollar'),
  };
}

const toNullable = <T>(text: string | null | undefined, read: (text: string) => T): T | null =>
  text === null || text === undefined ? null : read(text);

function toMicros(text: string | null): bigint {
  if (text === null) throw new RangeError('an amount is missing');
  return BigInt(text);
}

function toContracts(text: string): number {
  const contracts = parseCount(text);
  if (contracts < 0) throw new RangeError(`${text} is not a number of contracts`);
  return contracts;
}

function toSide(text: string): Side {
  if (text !== 'yes' && text !== 'no') throw new RangeError(`${text} is not a side`);
  return text;
}

/** Highest authority first. */
export const switchOwners = ['service', 'operator', 'own'] as const;
export type SwitchOwner = (typeof switchOwners)[number];

export type HeldPosition = Pick<
  typeof tradingPositions.$inferSelect,
  'ticker' | 'eventTicker' | 'side' | 'contracts' | 'cost'
>;

export type PendingOrder = Pick<
  typeof tradingOrders.$inferSelect,
  'ticker' | 'eventTicker' | 'side' | 'action' | 'contracts' | 'limitPrice'
>;

type DayStart =
  /** At the last valuation before midnight, with deposits since then. */
  | { kind: 'equity'; equity: Micros; deposits: Micros }
  /** Without a valuation before midnight, positions of that time count at cost. `spent`: fees and losses since. */
  | { kind: 'cost'; spent: Micros };

export interface Permissions {
  access: MarketAccess;
  switches: Record<SwitchOwner, SwitchInput>;
}

export interface RiskFacts extends Permissions {
  limits: RiskLimits;
  cash: Micros;
  positions: readonly HeldPosition[];
  pending: readonly PendingOrder[];
  dayStart: DayStart;
}
