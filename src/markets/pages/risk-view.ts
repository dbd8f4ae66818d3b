import { formatCount, formatDecimal, formatMoney, formatPrice } from '../../core/pages/format.js';
import { toAddress } from '../../core/pages/address.js';
import { nameMarket } from '../market/market-name.js';
import { findMarketView, toMarketView } from './labels.js';
import type { Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { defaultLimits, type DeclaredLimits, type RiskLimits } from '../risk/limits.js';
import type { Trader } from '../risk/queries.js';
import type { SwitchState } from '../ledger/risk-table.js';
import type { LimitUse } from '../risk/exposure.js';

export const RISK_PATH = '/dashboard/portfolio/risk';

const guides: { name: keyof RiskLimits; label: string; note: string }[] = [
  {
    name: 'maxDailyLoss',
    label: 'Daily loss',
    note: 'Since midnight UTC: realised losses, fees, and unrealised losses at the prices that positions can be sold for now. Contracts without a bid count as $0. At the limit, only orders that reduce positions are accepted.',
  },
  {
    name: 'maxEventLoss',
    label: 'Worst case per event',
    note: 'The most that one day at one station, or one hour, may lose. Its markets are netted.',
  },
  {
    name: 'maxPositionContracts',
    label: 'Contracts per market',
    note: 'Position after the order, on either side.',
  },
  { name: 'maxOrderContracts', label: 'Contracts per order', note: 'Applies to buying and selling.' },
  { name: 'maxOrderCost', label: 'Cost per purchase', note: 'At the limit price, including the fee.' },
  {
    name: 'maxOpenOrders',
    label: 'Open orders',
    note: 'Resting in the book, or waiting for the venue’s response.',
  },
  {
    name: 'priceCollar',
    label: 'Price collar',
    note: 'The maximum distance of a limit price beyond the best price in the book.',
  },
];

export function toLimitViews(
  limits: RiskLimits,
  declared: DeclaredLimits,
  use: LimitUse | undefined,
  snapshot: Snapshot | undefined,
) {
  return guides.map((guide) => ({
    ...guide,
    limit: write(limits[guide.name], guide.name),
    isDefault: declared[guide.name] === null,
    use: use && toUse(guide.name, limits, use, snapshot),
    unused: unusedText(guide.name, use, snapshot),
  }));
}

/** Undefined if unknown or not meaningful. */
function toUse(name: keyof RiskLimits, limits: RiskLimits, use: LimitUse, snapshot: Snapshot | undefined) {
  const used = usedOf(name, use);
  if (used === undefined) return undefined;
  const limit = limits[name];
  // A limit of zero always counts as used up.
  const share = Number(limit) === 0 ? 1 : Math.max(0, Number(used) / Number(limit));
  return {
    text: textOf(name, used),
    about: aboutOf(name, use, snapshot),
    share,
    label: `${textOf(name, used)} of ${write(limit, name)}`,
  };
}

const usedOf = (name: keyof RiskLimits, use: LimitUse): Micros | number | undefined =>
  ({
    maxDailyLoss: use.dayLoss,
    maxEventLoss: use.worstEvent?.loss ?? 0n,
    maxPositionContracts: use.largestPosition?.contracts ?? 0,
    maxOrderContracts: use.largestOrder,
    maxOrderCost: use.dearestOrder,
    maxOpenOrders: use.openOrders,
    priceCollar: undefined,
  })[name];

function textOf(name: keyof RiskLimits, used: Micros | number): string {
  if (typeof used === 'number') return formatDecimal(used);
  if (name === 'maxDailyLoss' && used < 0n) return `$0.00 lost, ${formatMoney(-used)} gained`;
  return name === 'maxDailyLoss' ? `${formatMoney(used)} lost` : formatMoney(used);
}

function aboutOf(name: keyof RiskLimits, use: LimitUse, snapshot: Snapshot | undefined): string | undefined {
  if (name === 'maxOrderContracts' && use.largestOrder > 0) return 'Largest order today.';
  if (name === 'maxOrderCost' && use.dearestOrder > 0n)
    return 'Most expensive purchase today, including the fee.';
  if (name === 'maxPositionContracts' && use.largestPosition) {
    const { ticker, side } = use.largestPosition;
    const { day, label } = findMarketView(ticker, snapshot);
    return `Largest position:  ${side.toUpperCase()} of ${day}, ${label}.`;
  }
  if (name === 'maxEventLoss' && use.worstEvent && use.worstEvent.loss > 0n) {
    const { eventTicker } = use.worstEvent;
    const listed = snapshot?.data.markets.find((market) => market.eventTicker === eventTicker);
    const { day } = toMarketView(nameMarket(listed?.ticker ?? `${eventTicker}-T0`, listed));
    return `Worst event: ${day}.`;
  }
  return undefined;
}

function unusedText(name: keyof RiskLimits, use: LimitUse | undefined, snapshot: Snapshot | undefined) {
  if (name === 'priceCollar') return 'Applies to every order.';
  if (use) return snapshot ? 'Cannot be computed at the moment.' : 'Unknown until market data arrives.';
  return 'Nothing yet.';
}

function write(value: Micros | number, name: keyof RiskLimits): string {
  if (name === 'priceCollar') return formatPrice(value as Micros);
  if (typeof value === 'bigint') return formatMoney(value);
  return name === 'maxOpenOrders' ? formatDecimal(value) : formatCount(value, 'contract');
}

export const switchActions = {
  halt: {
    button: 'Halt trading',
    title: 'Halt trading?',
    tone: 'danger',
    done: 'Trading is halted. It takes effect on the next order.',
    consequences: [
      'Starting with the next order, every order is refused, paper and live, from every API key and person.',
      'Sales are refused too. Positions stay open until they settle or trading reopens.',
      'Resting orders are cancelled. Fills are not reversed.',
    ],
  },
  reduce_only: {
    button: 'Reduce only',
    title: 'Allow only orders that reduce positions?',
    tone: undefined,
    done: 'Only orders that reduce positions are accepted, starting with the next order.',
    consequences: [
      'Starting with the next order, the only orders accepted sell held contracts, or buy the other side to close pairs.',
      'Every other order is refused, paper and live, from every API key and person.',
      'Resting orders are cancelled, except those that reduce positions. Fills are not reversed.',
    ],
  },
  open: {
    button: 'Open trading',
    title: 'Open trading?',
    tone: 'primary',
    done: 'Your Organization’s switch is set to Trading. It takes effect on the next order.',
    consequences: [
      'Starting with the next order, orders within the limits are accepted again.',
      'Every other switch that is closed stays closed.',
    ],
  },
} satisfies Record<SwitchState, object>;

/** For an operator. */
export const toSwitchTitle = (state: SwitchState, whom: string): string =>
  `${switchActions[state].title.replace('?', '')} for ${whom}?`;

export const toTraderView = ({ maxOpenOrders, maxEventLoss, ...trader }: Trader) => ({
  ...trader,
  limits: {
    maxOpenOrders: maxOpenOrders ?? defaultLimits.maxOpenOrders,
    maxEventLoss: maxEventLoss === null ? defaultLimits.maxEventLoss : BigInt(maxEventLoss),
  },
});

/** @param path the page that confirms a change */
export const toSwitchChoices = (current: SwitchState, path: string) =>
  (['open', 'reduce_only', 'halt'] as const)
    .filter((state) => state !== current)
    .map((state) => ({ ...switchActions[state], href: toAddress(path, { state }) }));
