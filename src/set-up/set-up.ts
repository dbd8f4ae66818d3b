import { and, asc, eq, notExists, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../core/db/client.js';
import { matches } from '../core/db/sql.js';
import type { FormFields } from '../core/pages/form.js';
import { listOpenInvitations } from '../accounts/identity/members/invitation-queries.js';
import type { Source } from '../accounts/identity/source.js';
import { memberships, organizations } from '../accounts/organizations/table.js';

/** After the operator's own account is created. */
export interface SetUpStep {
  /** Within `/set-up`. */
  path: string;
  title: string;
  view: string;
  data: object;
  /** Initial values. */
  given: FormFields;
  isDone(orm: Orm): Promise<boolean>;
  read(fields: FormFields): (tx: Tx, source: Source) => Promise<void>;
}

/** After the operator's account and second factor. */
export type NextStep = SetUpStep | 'owner' | 'done';

const owners = (orm: Orm) =>
  orm
    .select({ userId: memberships.userId })
    .from(memberships)
    .where(matches(memberships, { orgId: organizations.id, role: 'owner' }));

/** The oldest, or the named one if it has no owner. */
export async function findOwnerless(orm: Orm, slug?: string) {
  const [organization] = await orm
    .select()
    .from(organizations)
    .where(and(notExists(owners(orm)), slug === undefined ? undefined : eq(organizations.slug, slug)))
    .orderBy(asc(organizations.createdAt), asc(organizations.id))
    .limit(1);
  return organization;
}

export async function findInvitedOwner(orm: Orm, orgId: string, now: Date) {
  const open = await listOpenInvitations(orm, orgId, now, 100);
  return open.find(({ role }) => role === 'owner');
}

/** Customers made later are the console's matter, even without an owner. */
export async function hasOwner(orm: Orm): Promise<boolean> {
  const isOwner = eq(memberships.role, 'owner');
  return (
    (
      await orm
        .select({ one: sql`1` })
        .from(memberships)
        .where(isOwner)
        .limit(1)
    ).length > 0
  );
}

/** From the data, so that the set-up can be resumed in any browser. */
export async function readNextStep(orm: Orm, steps: readonly SetUpStep[], now: Date): Promise<NextStep> {
  for (const step of steps) if (!(await step.isDone(orm))) return step;
  if (await hasOwner(orm)) return 'done';
  const waiting = await findOwnerless(orm);
  return !waiting || (await findInvitedOwner(orm, waiting.id, now)) ? 'done' : 'owner';
}
