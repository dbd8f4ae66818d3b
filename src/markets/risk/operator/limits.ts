import type { z } from 'zod';
import { recordAudit } from '../../../accounts/audit/audit.js';
import type { Tx } from '../../../core/db/client.js';
import { AppError } from '../../../core/errors.js';
import { formatDollars, parseDollars } from '../../market/money.js';
import { deleteLimits, findLimits, saveLimits, type LimitsRow } from '../queries.js';
import { noLimitsDeclared, toEffectiveLimits, type DeclaredLimits } from '../limits.js';
import { findDifference, type Source } from '../../../accounts/identity/source.js';
import { getLockedOrganization } from '../../../accounts/identity/organizations/organizations.js';
import type { limitsSchema } from './schema.js';

/** Effective with the next order. */
export async function putLimits(tx: Tx, slug: string, declared: DeclaredLimits, source: Source) {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const current = await findLimits(tx, orgId);
  const difference = findDifference(toFields(current ?? noLimitsDeclared), toFields(declared));
  if (current && !difference) return { isNew: false, resource: current };
  const row = { ...declared, updatedAt: source.at };
  await saveLimits(tx, orgId, row);
  const details = { ...difference };
  await recordAudit(tx, orgId, { ...source, action: 'trading_limits.declared', target: slug, details });
  return { isNew: !current, resource: row };
}

export async function withdrawLimits(tx: Tx, slug: string, source: Source): Promise<void> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  const current = await findLimits(tx, orgId);
  if (!current) throw new AppError('not_found', `No limits were declared for the Organization "${slug}".`);
  await deleteLimits(tx, orgId);
  const details = { before: toFields(current) };
  await recordAudit(tx, orgId, { ...source, action: 'trading_limits.withdrawn', target: slug, details });
}

export function readDeclared(input: z.output<typeof limitsSchema>): DeclaredLimits {
  const micros = (text: string | null | undefined) =>
    text === null || text === undefined ? null : parseDollars(text);
  return {
    maxOrderContracts: input.maxOrderContracts ?? null,
    maxOrderCost: micros(input.maxOrderCost),
    maxPositionContracts: input.maxPositionContracts ?? null,
    maxEventLoss: micros(input.maxEventLoss),
    maxDailyLoss: micros(input.maxDailyLoss),
    maxOpenOrders: input.maxOpenOrders ?? null,
    priceCollar: micros(input.priceCollar),
  };
}

export const limitsJson = (row: LimitsRow | undefined) => {
  const { updatedAt, ...declared } = row ?? { ...noLimitsDeclared, updatedAt: null };
  return {
    effective: toJsonLimits(toEffectiveLimits(declared)),
    declared: toJsonLimits(declared),
    updatedAt,
  };
};

function toJsonLimits(limits: DeclaredLimits): Record<string, string | number | null> {
  const entries = Object.entries<bigint | number | null>({ ...limits });
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === 'bigint' ? formatDollars(value) : value]),
  );
}

function toFields({ updatedAt: _at, ...limits }: DeclaredLimits & { updatedAt?: Date }) {
  const entries = Object.entries(toJsonLimits(limits));
  return Object.fromEntries(entries.map(([name, value]) => [name, value === null ? null : String(value)]));
}
