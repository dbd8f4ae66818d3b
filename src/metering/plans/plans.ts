import { isDeepStrictEqual } from 'node:util';
import { recordOperatorAudit } from '../../accounts/audit/audit.js';
import type { Put, Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { toJson } from '../../core/http/json.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { refuseMisfit } from '../entitlements/grants.js';
import { listProductsBySlug, type Product } from '../entitlements/queries.js';
import { findPlan, lockPlan, storePlan, type Plan } from './queries.js';
import { definitionJson, type Definition, type PlanGrant } from './schema.js';

/** A changed definition is a new version. Organizations stay on theirs until they are moved. */
export async function putPlan(
  tx: Tx,
  slug: string,
  { name, definition: sent }: { name: string; definition: Definition },
  source: Source,
): Promise<Put<Plan>> {
  const { at } = source;
  await requireProducts(tx, sent);
  // Another order is no other plan.
  const definition = {
    ...sent,
    entitlements: sent.entitlements.toSorted((a, b) => (a.productSlug < b.productSlug ? -1 : 1)),
  };
  const { version, ...current } = await lockPlan(tx, slug, name, at);
  const isNew = version === 0;
  const before = isNew ? undefined : await findPlan(tx, slug);
  const isSame = before !== undefined && isDeepStrictEqual(before.definition, definition);
  if (before && isSame && before.name === name) return { isNew: false, resource: before };
  const plan = { ...current, name, version: isSame ? version : version + 1, definition, updatedAt: at };
  await storePlan(tx, plan, !isSame);
  await recordOperatorAudit(tx, {
    ...source,
    action: isNew ? 'plan.created' : 'plan.changed',
    target: slug,
    details: { ...(before && { before: toFields(before) }), after: toFields(plan) },
  });
  return { isNew, resource: plan };
}

const toFields = ({ name, version, definition }: Plan) => ({
  name,
  version,
  // Postgres and the hash of the log must have the same text.
  definition: toJson(definitionJson(definition)),
});

export async function getPlan(orm: Orm, slug: string, version?: number): Promise<Plan> {
  const plan = await findPlan(orm, slug, version);
  if (plan) return plan;
  const detail = version === undefined ? '' : ` with the version ${version}`;
  throw new AppError('not_found', `There is no plan "${slug}"${detail}.`);
}

/** By slug. */
export const readProducts = async (orm: Orm, slugs: readonly string[]): Promise<Map<string, Product>> =>
  new Map((await listProductsBySlug(orm, [...new Set(slugs)])).map((product) => [product.slug, product]));

/** Refuses what applying the plan would refuse. */
export async function requireProducts(orm: Orm, { entitlements, grants, trial }: Definition): Promise<void> {
  const paidBy = (list: readonly PlanGrant[], place: string) =>
    list.flatMap(({ productSlugs = [] }, i) =>
      productSlugs.map((slug, n) => ({ slug, pointer: `${place}/${i}/productSlugs/${n}` })),
    );
  const places = [
    ...entitlements.map(({ productSlug: slug }, i) => ({ slug, pointer: `/entitlements/${i}/productSlug` })),
    ...paidBy(grants, '/grants'),
    ...paidBy(trial?.grants ?? [], '/trial/grants'),
  ];
  const slugs = places.map(({ slug }) => slug);
  const known = await readProducts(orm, slugs);
  const errors = places
    .filter(({ slug }) => !known.has(slug))
    .map(({ slug, pointer }): ErrorPlace => {
      return { pointer, code: 'unknown_product', detail: `There is no product "${slug}".` };
    });
  if (errors.length > 0)
    throw new AppError('unknown_product', `The plan was not changed. ${errors[0]!.detail}`, { errors });
  for (const [i, entitlement] of entitlements.entries())
    refuseMisfit(known.get(entitlement.productSlug)!, entitlement, `entitlements/${i}/`);
}
