import { and, eq, gt, lte, sql } from 'drizzle-orm';
import { recordOperatorAudit } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { hasChanged, hasRow, matches } from '../../../core/db/sql.js';
import { AppError } from '../../../core/errors.js';
import { DAY_MS, HOUR_MS } from '../../../core/time.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import type { Source } from '../source.js';
import { oneTimeLinks, operators, type LinkKind } from '../table.js';

const lifetimesMs: Record<LinkKind, number> = {
  setup: HOUR_MS,
  password_reset: DAY_MS,
  second_factor_reset: DAY_MS,
  operator_invitation: 7 * DAY_MS,
};

const paths: Record<LinkKind, string> = {
  setup: '/set-up',
  password_reset: '/reset',
  second_factor_reset: '/reset',
  operator_invitation: '/set-up',
};

/** A used or expired link's page states why it no longer works. */
const KEPT_MS = 30 * DAY_MS;

export type OneTimeLink = typeof oneTimeLinks.$inferSelect;

interface LinkInput {
  kind: LinkKind;
  /** Undefined for a set-up link, which belongs to whoever uses it first. */
  person?: { id?: string | undefined; email: string } | undefined;
  /** Undefined if the service created the link. */
  createdBy?: string | undefined;
  lifetimeMs?: number;
  /** Anyone can request a mailed link for any address. */
  isMailed?: boolean;
}

export interface NewLink {
  /** The secret after the `#` is shown only once. */
  path: string;
  expiresAt: Date;
}

export class LinkGone extends AppError {
  constructor(detail: string) {
    super('not_found', detail);
  }
}

/**
 * Replaces the person's open links of the same kind. An e-mailed link replaces only e-mailed ones, so that a stranger's
 * request cannot invalidate an operator's link.
 */
export async function createLink(
  tx: Tx,
  { kind, person, createdBy, lifetimeMs = lifetimesMs[kind], isMailed = false }: LinkInput,
  source: Source,
): Promise<NewLink> {
  const key = person?.id ?? person?.email ?? '';
  const isPersons = sql`coalesce(${oneTimeLinks.userId}::text, ${oneTimeLinks.email}, '') = ${key}`;
  const isOpen = matches(oneTimeLinks, { kind, usedAt: null, ...(isMailed && { mailed: true }) });
  const hasReplaced = await hasChanged(tx.delete(oneTimeLinks).where(and(isOpen, isPersons)));
  const token = generateToken();
  const expiresAt = new Date(source.at.getTime() + lifetimeMs);
  await tx.insert(oneTimeLinks).values({
    hashedToken: hashToken(token),
    kind,
    userId: person?.id ?? null,
    email: person?.email ?? null,
    createdAt: source.at,
    createdBy: createdBy ?? null,
    mailed: isMailed,
    expiresAt,
  });
  const details = { kind, expiresAt, hasReplaced };
  const target = person?.email ?? kind;
  await recordOperatorAudit(tx, { ...source, action: 'link.created', target, details });
  return { path: `${paths[kind]}#${token}`, expiresAt };
}

/** Waits for a concurrent use of such a link, and blocks new uses until the commit. */
export async function lockOpenLinks(tx: Tx, kind: LinkKind): Promise<void> {
  await tx
    .select({ kind: oneTimeLinks.kind })
    .from(oneTimeLinks)
    .where(matches(oneTimeLinks, { kind, usedAt: null }))
    .for('update');
}

const shape = /^[\w-]{43}$/;

/** Accepts a link or a bare secret. */
export const readLinkToken = (typed: string): string | undefined =>
  /(?:^|#)([\w-]{43})$/.exec(typed.trim())?.[1];

export const isLinkToken = (token: unknown): token is string =>
  typeof token === 'string' && shape.test(token);

/** @throws LinkGone */
export async function findLink(orm: Orm, token: unknown, kinds: readonly LinkKind[], now: Date) {
  const [link] = isLinkToken(token)
    ? await orm
        .select()
        .from(oneTimeLinks)
        .where(eq(oneTimeLinks.hashedToken, hashToken(token)))
    : [];
  if (!link || !kinds.includes(link.kind))
    throw new LinkGone(
      'This link does not exist. It may have been replaced by a newer one, or copied incompletely.',
    );
  if (link.usedAt !== null) throw new LinkGone('This link was already used. It works only once.');
  if (link.expiresAt <= now) throw new LinkGone('This link has expired.');
  if (!(await hasValidCreator(orm, link)))
    throw new LinkGone('The person who created this link is no longer an operator.');
  return link;
}

/** False if the creator is no longer an operator. The service may create any link but an operator invitation. */
async function hasValidCreator(orm: Orm, { kind, createdBy }: OneTimeLink): Promise<boolean> {
  return createdBy === null ? kind !== 'operator_invitation' : isOperator(orm, createdBy);
}

export const isOperator = (orm: Orm, userId: string): Promise<boolean> =>
  hasRow(orm.select({ userId: operators.userId }).from(operators).where(eq(operators.userId, userId)));

export async function deleteOpenLinksBy(tx: Tx, userId: string): Promise<number> {
  const rows = await tx
    .delete(oneTimeLinks)
    .where(matches(oneTimeLinks, { createdBy: userId, usedAt: null }))
    .returning({ kind: oneTimeLinks.kind });
  return rows.length;
}

/** A single statement, so only one of two concurrent uses succeeds. @throws LinkGone */
export async function spendLink(tx: Tx, { hashedToken }: OneTimeLink, now: Date): Promise<void> {
  const isOpen = and(matches(oneTimeLinks, { hashedToken, usedAt: null }), gt(oneTimeLinks.expiresAt, now));
  if (!(await hasChanged(tx.update(oneTimeLinks).set({ usedAt: now }).where(isOpen))))
    throw new LinkGone('This link was just used or replaced, or has expired. It works only once.');
}

export async function deleteOldLinks({ orm }: { orm: Orm }, now: Date): Promise<void> {
  await orm.delete(oneTimeLinks).where(lte(oneTimeLinks.expiresAt, new Date(now.getTime() - KEPT_MS)));
}
