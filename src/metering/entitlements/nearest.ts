import { distance } from 'fastest-levenshtein';
import type { Clock } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { listProductsInEffect } from './queries.js';
import type { EntitlementKind } from './table.js';

const MAX_OWN = 500;

/** Of one request: whoever has more wrong slugs than this has one thing wrong many times. */
const MAX_WRONG = 10;

/**
 * A question to append to a refusal, for each slug that one of the Organization's own is near to: at most a third of the
 * letters differ, and no more than three. Asked for refusals only, of a caller whose key is good.
 */
export async function suggestSlugs(
  { db, clock }: { db: Database; clock: Clock },
  orgId: string,
  wrong: string[],
  kind?: EntitlementKind,
): Promise<Map<string, string>> {
  const now = new Date(clock.now());
  // What has been decided is answered, with or without a question.
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
