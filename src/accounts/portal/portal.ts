import { v7 as uuid } from 'uuid';
import type { z } from 'zod';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { MINUTE_MS } from '../../core/time.js';
import { recordAudit, recordOperatorAudit } from '../audit/audit.js';
import { findMemberByEmail } from '../identity/members/queries.js';
import { getLockedOrganization } from '../identity/organizations/organizations.js';
import type { Organization } from '../identity/organizations/queries.js';
import { generateToken, hashToken } from '../identity/session/session-cookie.js';
import type { Source, Whereabouts } from '../identity/source.js';
import { isManager } from '../organizations/table.js';
import { deleteSessions, insertSession, openSession } from './queries.js';
import type { portalSessionInputSchema } from './schema.js';
import { portalPages } from './table.js';

export type PortalSessionInput = z.output<typeof portalSessionInputSchema>;

const LINK_MINUTES = 10;

export type NewPortalSession = Awaited<ReturnType<typeof createPortalSession>>;

/**
 * With `operatorId`, an operator views the pages as the customer.
 * @returns a path that contains the link's secret
 */
export async function createPortalSession(
  tx: Tx,
  slug: string,
  { expiresInMinutes, member: email, ...input }: PortalSessionInput,
  source: Source,
  { serviceKeyId, operatorId }: { serviceKeyId?: string | null; operatorId?: string } = {},
) {
  const { at, actor } = source;
  const organization = await getLockedOrganization(tx, slug);
  if (organization.archivedAt !== null)
    throw new AppError('not_found', `The Organization "${slug}" is archived.`);
  const member = email === undefined ? undefined : await requireManager(tx, organization, email);
  const secret = generateToken();
  const { pages = pagesFor(input), livemode, subject, returnUrl, accent } = input;
  const session = {
    id: uuid(),
    organizationId: organization.id,
    hashedLink: hashToken(secret),
    serviceKeyId,
    operatorId,
    createdBy: actor,
    memberId: member?.userId,
    createdAt: at,
    expiresAt: new Date(at.getTime() + expiresInMinutes * MINUTE_MS),
  };
  await insertSession(tx, { ...session, pages, livemode, subject, returnUrl, accent });
  if (operatorId !== undefined) {
    const entry = { ...source, action: 'customer.viewed', target: slug };
    const details = { expiresAt: session.expiresAt };
    await recordAudit(tx, organization.id, { ...entry, details });
    await recordOperatorAudit(tx, { ...entry, details });
  }
  // Every other session only reads, and there may be many.
  if (member)
    await recordAudit(tx, organization.id, {
      ...source,
      action: 'portal_session.created',
      target: member.email,
      details: { pages, expiresAt: session.expiresAt },
    });
  return { path: `/portal/open?token=${secret}`, expiresAt: session.expiresAt };
}

/** Credits and keys belong to the whole Organization. */
const pagesFor = ({ subject }: Pick<PortalSessionInput, 'subject'>) =>
  portalPages.filter((page) => page !== 'keys' && (subject === undefined || page !== 'credits'));

async function requireManager(tx: Tx, organization: Organization, email: string) {
  const why = whyNoKeys(organization);
  if (why !== undefined) throw fieldError('member', `is not possible: ${why}`);
  const member = await findMemberByEmail(tx, organization.id, email);
  if (!member || !isManager(member.role))
    throw fieldError('member', 'must be the address of an owner or admin of the Organization');
  return member;
}

/** A vendor cannot vouch for what these Organizations demand. */
export function whyNoKeys(organization: Organization): string | undefined {
  const { name, requireSingleSignOn, requireSecondFactor } = organization;
  if (requireSingleSignOn) return `${name} requires single sign-on`;
  return requireSecondFactor ? `${name} requires a second factor` : undefined;
}

/** Sessions that were not opened end, too. */
export async function endPortalSessions(tx: Tx, slug: string, source: Source): Promise<void> {
  const organization = await getLockedOrganization(tx, slug);
  const ended = await deleteSessions(tx, organization.id, source.at);
  if (ended > 0)
    await recordAudit(tx, organization.id, {
      ...source,
      action: 'portal_session.ended',
      target: slug,
      details: { sessions: ended },
    });
}

/** @returns the cookie's token */
export async function openPortal(orm: Orm, secret: string, { at }: Pick<Whereabouts, 'at'>): Promise<string> {
  const token = generateToken();
  const since = new Date(at.getTime() - LINK_MINUTES * MINUTE_MS);
  if (!(await openSession(orm, hashToken(secret), { hashedToken: hashToken(token), since, now: at })))
    throw new AppError(
      'not_found',
      `This link was used before, or is older than ${LINK_MINUTES} minutes. Open the page that you came from again.`,
      { pageTitle: 'This link no longer works' },
    );
  return token;
}
