import type { Orm, Tx } from '../../core/db/client.js';
import {
  change,
  recordAudit,
  recordOperatorAudit,
  type Authority,
  type ChangeDeps,
} from '../../accounts/audit/audit.js';
import { AppError } from '../../core/errors.js';
import { findDifference, type Source } from '../../accounts/identity/source.js';
import { queueForBothModes, queueForTraders } from '../../accounts/webhooks/outbox.js';
import { switchOwners, type SwitchOwner } from './facts.js';
import {
  findServiceSwitch,
  findSwitches,
  saveServiceSwitch,
  saveSwitch,
  type SwitchPart,
  type SwitchInput,
} from './queries.js';
import type { SwitchState } from '../ledger/risk-table.js';

interface SwitchDeps extends ChangeDeps {
  /** Waiting to be sent on this instance. */
  live: { reviewWaiting(): void } | undefined;
}

/** Reviews the waiting orders after the commit. */
export async function changeSwitch<T>(deps: SwitchDeps, by: Authority, work: (tx: Tx) => Promise<T>) {
  const changed = await change(deps, by, work);
  deps.live?.reviewWaiting();
  return changed;
}

const strictness: Record<SwitchState, number> = { open: 0, reduce_only: 1, halt: 2 };

/** Allows more orders. */
export const isOpened = (before: SwitchState, after: SwitchState) => strictness[after] < strictness[before];

const untouched: SwitchPart = { state: 'open', reason: null, changedAt: null };

export type TradingSwitch = Awaited<ReturnType<typeof readSwitch>>;

export async function readSwitch(orm: Orm, orgId: string) {
  const found = await findSwitches(orm, orgId);
  const parts = {
    service: found.service ?? untouched,
    operator: found.operator ?? untouched,
    own: found.own ?? { ...untouched, by: null },
  };
  const state = switchOwners
    .map((owner) => parts[owner].state)
    .reduce((a, b) => (strictness[b] > strictness[a] ? b : a));
  return { state, ...parts };
}

/**
 * Effective with the next order on every instance. The caller holds the Organization's row lock.
 * @throws AppError invalid_request if closed without a reason
 */
export async function setSwitch(
  tx: Tx,
  orgId: string,
  owner: 'operator' | 'own',
  input: SwitchInput,
  source: Source,
): Promise<void> {
  requireReason(input);
  const current = (await readSwitch(tx, orgId))[owner];
  const difference = findDifference(toFields(current), toFields(input));
  if (!difference) return;
  const by = owner === 'own' ? source.actor : null;
  await saveSwitch(tx, orgId, owner, { ...input, changedAt: source.at, by });
  const details = { ...difference };
  await recordAudit(tx, orgId, { ...source, action: 'trading_switch.changed', target: owner, details });
  const data = haltOf(owner, current, input, source);
  if (data) await queueForBothModes(tx, { orgId, type: 'trading.halted', data, at: source.at });
}

/** Effective with every Organization's next order on every instance. */
export async function setServiceSwitch(tx: Tx, input: SwitchInput, source: Source): Promise<SwitchPart> {
  requireReason(input);
  const current = (await findServiceSwitch(tx, { isLocked: true })) ?? untouched;
  const difference = findDifference(toFields(current), toFields(input));
  if (!difference) return current;
  const part = { ...input, changedAt: source.at };
  await saveServiceSwitch(tx, part);
  const details = { ...difference };
  await recordOperatorAudit(tx, { ...source, action: 'trading_switch.changed', target: 'service', details });
  const data = haltOf('service', current, input, source);
  if (data) await queueForTraders(tx, { type: 'trading.halted', data, at: source.at });
  return part;
}

function haltOf(owner: SwitchOwner, before: SwitchInput, { state, reason }: SwitchInput, { at }: Source) {
  if (state === 'open' || state === before.state) return undefined;
  return { owner, state, reason: reason!, changedAt: at.toISOString() };
}

export const readServiceSwitch = async (orm: Orm): Promise<SwitchPart> =>
  (await findServiceSwitch(orm)) ?? untouched;

const toFields = ({ state, reason }: SwitchInput) => ({ state, reason });

function requireReason({ state, reason }: SwitchInput): void {
  if (state === 'open' || reason !== null) return;
  const detail = 'is required unless the state is open';
  const place = { pointer: '/reason', code: 'invalid_request' as const, detail };
  throw new AppError('invalid_request', `/reason ${detail}`, { errors: [place] });
}
