import { v7 as uuid } from 'uuid';
import { byProof, change, recordAudit, recordOperatorAudit, type ChangeDeps } from '../../audit/audit.js';
import type { MailDeps } from '../../mail/outbox.js';
import { AppError } from '../../../core/errors.js';
import type { Tx } from '../../../core/db/client.js';
import { HOUR_MS } from '../../../core/time.js';
import { roles, type Role } from '../../organizations/table.js';
import { findMember, lockOtherOwner } from '../members/queries.js';
import { putMember, removeMemberByEmail } from '../members/members.js';
import { emailSchema } from '../operator/schema.js';
import { lockOrganization } from '../organizations/queries.js';
import { hashPassword } from '../password.js';
import { hasSecondFactor } from '../second-factor/queries.js';
import type { PersonAuthority } from '../session/authority.js';
import { lockUser as lockSigningIn, raiseSession, updateSession } from '../session/queries.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import type { Arrival } from '../session/session.js';
import { normalizeEmail, openSession, type SignedIn } from '../sign-in/sign-in.js';
import { CannotSignIn } from '../sign-in/sign-in-routes.js';
import { auditPerson, type Source } from '../source.js';
import { mailAccountNotice } from '../users/notices.js';
import { findUser, insertUser, lockUser, type User } from '../users/queries.js';
import { getUser } from '../users/users.js';
import type { SingleSignOnConfig } from './config.js';
import type { Claims } from './issuer.js';
import { deleteIdentities, findIdentity, findIdentityOwner, insertIdentity } from './queries.js';

type Deps = ChangeDeps & MailDeps;

const refusals = {
  unverified_address: 'has not verified your e-mail address. Verify it there, then sign in again.',
  no_account:
    'signed you in, but you have no account here. Ask for an invitation to the address that you have there.',
  other_identity:
    'signed you in with another account than before. Ask the operator of this service to unlink the old one.',
};
type Refusal = keyof typeof refusals;

/**
 * Only `iss` and `sub` identify a person. The first sign-in finds the person by their verified address and links their
 * account at the issuer. A second factor is still required.
 * @param invited address of the opened invitation, for which an account may be created
 * @throws CannotSignIn
 */
export async function signInAs(
  deps: Deps,
  config: SingleSignOnConfig,
  { claims, invited, ...proof }: { claims: Claims; invited: string | undefined } & Proof,
  arrival: Arrival,
): Promise<SignedIn & { email: string }> {
  const granted = config.roles && claims.groups && readGrants(config.roles.grants, claims.groups);
  const mayCreate = hasRole(granted) || (invited !== undefined && invited === addressOf(claims));
  const user = await findOrLink(deps, claims, arrival, mayCreate);
  if (typeof user === 'string') throw new CannotSignIn('not_signed_in', `${config.name} ${refusals[user]}`);
  const { at, ip, requestId } = arrival;
  const source = { at, ip, requestId, actor: 'single_sign_on' };
  // Each Organization gets its own transaction, because each locks its own audit log.
  for (const [slug, role] of granted ?? [])
    await change(deps, byProof, (tx) => setRole(tx, slug, user, role, source));
  const signedIn = await change(deps, byProof, async (tx) => {
    if (!(await lockSigningIn(tx, user))) return undefined;
    return (
      (await raiseFormer(tx, user, proof, arrival)) ??
      openSession(tx, user, { ...arrival, isSingleSignOn: true, isConfirmed: proof.isFresh })
    );
  });
  if (!signedIn) throw new CannotSignIn('not_signed_in', 'Your account was just changed. Sign in again.');
  return { ...signedIn, email: user.email };
}

interface Proof {
  /** True if the person signs in to confirm their identity. */
  isConfirmation: boolean;
  /** True if the issuer asked the person to sign in instead of relying on an earlier sign-in. */
  isFresh: boolean;
}

/**
 * The person's role in each Organization named in the configuration; undefined if they have none there. If several
 * grants match, the highest role wins.
 */
function readGrants(
  grants: NonNullable<SingleSignOnConfig['roles']>['grants'],
  groups: readonly string[],
): Map<string, Role | undefined> {
  const given = new Map<string, Role | undefined>(
    grants.map(({ organization }) => [organization, undefined]),
  );
  for (const wanted of roles.toReversed())
    for (const { value, organization, role } of grants)
      if (role === wanted && groups.includes(value)) given.set(organization, role);
  return given;
}

const hasRole = (granted: Map<string, Role | undefined> | undefined): boolean =>
  [...(granted?.values() ?? [])].some((role) => role !== undefined);

const addressOf = ({ email = '' }: Claims) => emailSchema.safeParse(normalizeEmail(email)).data;

async function findOrLink(
  deps: Deps,
  claims: Claims,
  arrival: Arrival,
  mayCreate: boolean,
): Promise<User | Refusal> {
  const known = await findIdentityOwner(deps.db.orm, claims);
  if (known) return known;
  const email = addressOf(claims);
  // Hashing is slow, so hash before the transaction. Nobody knows this password.
  const unknownPassword =
    mayCreate && email !== undefined && !(await findUser(deps.db.orm, { email }))
      ? await hashPassword(generateToken(), arrival.gone)
      : undefined;
  return change(deps, byProof, async (tx) => {
    const linked = await link(tx, deps, { claims, email, unknownPassword }, arrival);
    if (typeof linked === 'string') {
      const { at, ip, requestId } = arrival;
      const refused = { action: 'user.single_sign_on_refused', actor: 'unknown', target: email ?? 'unknown' };
      const details = { reason: linked, issuer: claims.issuer, subject: claims.subject };
      await recordOperatorAudit(tx, { at, ip, requestId, ...refused, details });
    }
    return linked;
  });
}

async function link(
  tx: Tx,
  deps: MailDeps,
  person: { claims: Claims; email: string | undefined; unknownPassword: string | undefined },
  arrival: Arrival,
): Promise<User | Refusal> {
  const { claims, email, unknownPassword } = person;
  const { issuer, subject } = claims;
  if (email === undefined || !claims.isEmailVerified) return 'unverified_address';
  let user = await lockUser(tx, { email });
  const identity = user && (await findIdentity(tx, user.id, issuer));
  if (identity) return identity.subject === subject ? user! : 'other_identity';
  const isNew = !user;
  if (!user) {
    if (unknownPassword === undefined) return 'no_account';
    const name = claims.name?.trim().slice(0, 200) || email;
    user = { id: uuid(), email, name, passwordHash: unknownPassword, createdAt: arrival.at };
    await insertUser(tx, user);
  }
  await insertIdentity(tx, { issuer, subject, userId: user.id, createdAt: arrival.at });
  const author = { userId: user.id, email };
  if (isNew) await auditPerson(tx, author, 'user.created', arrival, { after: { name: user.name } });
  await auditPerson(tx, author, 'user.identity_linked', arrival, { issuer, subject });
  if (!isNew) await mailAccountNotice(tx, deps, email, 'identityAdded', arrival);
  return user;
}

/** The last owner of an Organization stays its owner, whatever the claim says. */
async function setRole(
  tx: Tx,
  slug: string,
  { id, email }: User,
  role: Role | undefined,
  source: Source,
): Promise<void> {
  const organization = await lockOrganization(tx, { slug });
  const current = organization && (await findMember(tx, organization.id, id));
  if (!organization || current?.role === role) return;
  if (current?.role === 'owner' && !(await lockOtherOwner(tx, organization.id, id))) return;
  if (role !== undefined) await putMember(tx, slug, email, { role }, source);
  else await removeMemberByEmail(tx, slug, email, source);
}

/**
 * Continues the person's session in this browser, which has already passed the second factor. Returns undefined if
 * there is no such session, or if the second factor must be confirmed again.
 */
async function raiseFormer(
  tx: Tx,
  { id: userId, email }: User,
  { isConfirmation, isFresh }: Proof,
  arrival: Arrival,
): Promise<SignedIn | undefined> {
  const hasFactor = await hasSecondFactor(tx, userId);
  if (arrival.formerToken === undefined || (hasFactor && isConfirmation)) return undefined;
  const isConfirmed = isFresh && !hasFactor;
  const token = generateToken();
  const tokens = { hashedToken: hashToken(arrival.formerToken), newHashedToken: hashToken(token) };
  if (!(await raiseSession(tx, { ...tokens, userId, isConfirmed }, arrival.at))) return undefined;
  const details = { singleSignOn: true, sameSession: true };
  await auditPerson(tx, { userId, email }, 'user.signed_in', arrival, details);
  return { token, isCodeDue: false };
}

const WAIVED_MS = HOUR_MS;

/** Call this only if the issuer is down. @throws AppError forbidden_role */
export async function waiveSingleSignOn(
  deps: ChangeDeps,
  by: PersonAuthority & { email: string },
  orgId: string,
  source: Source,
): Promise<void> {
  await change(deps, by, async (tx) => {
    const member = await findMember(tx, orgId, by.userId);
    if (member?.role !== 'owner') throw new AppError('forbidden_role', 'Only owners can do this.');
    const singleSignOnWaivedUntil = new Date(source.at.getTime() + WAIVED_MS);
    await updateSession(tx, by.sessionId, { singleSignOnWaivedUntil });
    const entry = { ...source, action: 'member.single_sign_on_waived', target: by.email };
    await recordAudit(tx, orgId, entry);
  });
}

/** The next single sign-on links the person's account at the issuer again. @throws AppError not_found */
export async function unlink(tx: Tx, email: string, source: Source): Promise<void> {
  const user = await getUser(tx, email);
  if (!(await deleteIdentities(tx, user.id)))
    throw new AppError('not_found', `The user "${email}" has never used single sign-on.`);
  await recordOperatorAudit(tx, { ...source, action: 'user.identity_unlinked', target: email });
}
