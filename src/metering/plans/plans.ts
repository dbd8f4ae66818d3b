import { isDeepStrictEqual } from 'node:util';
import { recordOperatorAudit } from '../../accounts/audit/audit.js';
import type { Put, Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { toJson } from '../../core/http/json.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { listProductsBySlug, type Product } from '../entitlements/queries.js';
import { NO_METRIC } from '../entitlements/table.js';
import { findPlan, insertVersion, lockPlan, storePlan, type Plan } from './queries.js';
import { definitionJson } from './schema.js';
import type { Definition } from './table.js';

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
  if (!isSame) await insertVersion(tx, plan);
  await storePlan(tx, plan);
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
export async function requireProducts(orm: Orm, definition: Definition): Promise<void> {
  const { entitlements, grants, trial } = definition;
  const paid = [...grants, ...(trial?.grants ?? [])].flatMap(({ productSlugs = [] }) => productSlugs);
  const known = await readProducts(orm, [...entitlements.map(({ productSlug }) => productSlug), ...paid]);
  const errors: ErrorPlace[] = [];
  const check = (slug: string, pointer: string) => {
    if (!known.has(slug))
      errors.push({ pointer, code: 'unknown_product', detail: `There is no product "${slug}".` });
  };
  for (const [i, { productSlug }] of entitlements.entries())
    check(productSlug, `/entitlements/${i}/productSlug`);
  for (const [place, list] of [
    ['/grants', grants],
    ['/trial/grants', trial?.grants ?? []],
  ] as const)
    for (const [i, { productSlugs = [] }] of list.entries())
      for (const [n, slug] of productSlugs.entries()) check(slug, `${place}/${i}/productSlugs/${n}`);
  if (errors.length > 0)
    throw new AppError('unknown_product', `The plan was not changed. ${errors[0]!.detail}`, { errors });
  for (const [i, { productSlug, unitCap, limits = [] }] of entitlements.entries()) {
    const { subjectsSince, usageMetric } = known.get(productSlug)!;
    const perSubject = limits.findIndex(({ per }) => per !== undefined);
    if (perSubject >= 0 && !subjectsSince)
      throw fieldError(`entitlements/${i}/limits/${perSubject}/per`, 'needs a product that counts subjects');
    if (usageMetric === NO_METRIC && (limits.length > 0 || unitCap != null))
      throw fieldError(
        `entitlements/${i}/${limits.length > 0 ? 'limits' : 'unitCap'}`,
        'needs a product that has a metric',
      );
  }
}
