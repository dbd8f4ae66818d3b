import { distance } from 'fastest-levenshtein';
import type { Clock } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { listProductsInEffect } from './queries.js';
import type { EntitlementKind } from './table.js';

const MAX_OWN = 500;

/** A request with more wrong slugs probably has one systematic error. */
const MAX_WRONG = 10;

/**
 * A "did you mean" question for each slug that differs from one of the Organization's own in at most a third of the
 * letters, and no more than three. Only for callers with a valid key.
 */
export async function suggestSlugs(
  { db, clock }: { db: Database; clock: Clock },
  orgId: string,
  wrong: string[],
  kind?: EntitlementKind,
): Promise<Map<string, string>> {
  const now = new Date(clock.now());
  // A failure here must not hide the refusal.
  const own = await listProductsInEffect(db.orm, orgId, { now, limit: MAX_OWN }).catch(() => []);
  const slugs = own.filter((product) => !kind || product.kind === kind).map(({ slug }) => slug);
  const questions = new Map<string, string>();
  for (const slug of wrong.slice(0, MAX_WRONG)) {
    const near = findNearest(slug, slugs);
    if (near !== undefined) questions.set(slug, ` Did you mean "${near}"?`);
  }
  return questions;
}

function findNearest(slug: string, own: string[]): string | undefined {
  let bound = Math.min(3, Math.floor(slug.length / 3)) + 1;
  let near: string | undefined;
  for (const candidate of own) {
    if (candidate === slug || Math.abs(candidate.length - slug.length) >= bound) continue;
    const apart = distance(candidate, slug.toLowerCase());
    if (apart < bound) [near, bound] = [candidate, apart];
  }
  return near;
}
