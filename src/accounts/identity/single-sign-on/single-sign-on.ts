import { v7 as uuid } from 'uuid';
import {
  byProof,
  change,
  lockLogs,
  recordAudit,
  recordOperatorAudit,
  type ChangeDeps,
} from '../../audit/audit.js';
import type { MailDeps } from '../../mail/outbox.js';
import { AppError } from '../../../core/errors.js';
import type { Tx } from '../../../core/db/client.js';
import { HOUR_MS } from '../../../core/time.js';
import type { Role } from '../../organizations/table.js';
import { isByMemberAlone } from '../members/invitation-queries.js';
import { deleteMembership, findMember, listMembershipsOf } from '../members/queries.js';
import { emailSchema } from '../operator/schema.js';
import { unusedPassword } from '../password.js';
import { hasSecondFactor } from '../second-factor/queries.js';
import type { PersonAuthority } from '../session/authority.js';
import { hasOwnSession, raiseSession, updateSession } from '../session/queries.js';
import { generateToken, hashToken } from '../session/session-cookie.js';
import type { Arrival } from '../session/session.js';
import { CannotSignIn, normalizeEmail, openSession, type SignedIn } from '../sign-in/sign-in.js';
import { auditPerson, type Source } from '../source.js';
import { mailAccountNotice } from '../users/notices.js';
import { insertUser, lockUser, proveAddress, updateUser, type User } from '../users/queries.js';
import { endAccess, getUser } from '../users/users.js';
import type { SingleSignOnConfig } from './config.js';
import type { Claims } from './issuer.js';
import { deleteIdentities, findIdentity, findIdentityOwner, insertIdentity } from './queries.js';
import { readGrants, roleChanges } from './roles.js';

const refusals = {
  unverified_address:
    'has not verified your e-mail address. Verify it there, then sign in again. If it has verified nobody’s, its operator must send email_verified: authentik needs a scope mapping of its own for the scope email since 2025.10.',
  unusable_address:
    'signed you in with an e-mail address that this service cannot use: the part before the @ must consist of unaccented letters, digits and signs. Ask for another address there.',
  no_account:
    'signed you in, but you have no account here. Ask for an invitation to the address that you have there.',
  other_identity:
    'signed you in with another account than before. Ask the operator of this service to unlink the old one.',
};
type Refusal = keyof typeof refusals;

/**
 * Only `iss` and `sub` identify a person. The first sign-in links the account with the same verified address. A second
 * factor is still required, and roles are granted after it.
 * @param invited address of the opened invitation, for which an account may be created
 */
export async function signInAs(
  deps: ChangeDeps & MailDeps,
  config: SingleSignOnConfig,
  { claims, invited, ...proof }: { claims: Claims; invited: string | undefined } & Proof,
  arrival: Arrival,
): Promise<SignedIn & { email: string }> {
  const roles = config.roles && claims.groups ? readGrants(config.roles.grants, claims.groups) : null;
  const email = addressOf(claims);
  const hasRole = Object.values(roles ?? {}).some((role) => role !== null);
  const mayCreate = hasRole || (invited !== undefined && invited === email);
  const passwordHash = await unusedPassword();
  const signedIn = await change(deps, byProof, async (tx) => {
    const organizations = roles ? await roleChanges.lock(tx, roles) : [];
    const met = await meet(tx, claims, email, mayCreate);
    if (typeof met === 'string') return refuse(tx, met, claims, arrival);
    const user = await link(tx, deps, { ...met, claims, passwordHash }, organizations, arrival);
    const claimed = roles && { roles, set: () => roleChanges.set(tx, roles, user, arrival) };
    const started =
      (await raiseFormer(tx, user, { ...proof, claimed }, arrival)) ??
      (await openSession(tx, user, arrival, { isSingleSignOn: true, isConfirmed: proof.isFresh, claimed }));
    return { ...started, email: user.email };
  });
  if (typeof signedIn === 'string')
    throw new CannotSignIn('not_signed_in', `${config.name} ${refusals[signedIn]}`);
  return signedIn;
}

interface Proof {
  isConfirmation: boolean;
  /** The issuer did not rely on an earlier sign-in. */
  isFresh: boolean;
}

const addressOf = ({ email = '' }: Claims) => emailSchema.safeParse(normalizeEmail(email)).data;

async function refuse(tx: Tx, reason: Refusal, claims: Claims, arrival: Arrival): Promise<Refusal> {
  const { at, ip, requestId } = arrival;
  const { issuer, subject, email } = claims;
  const target = email === undefined ? 'unknown' : normalizeEmail(email).slice(0, 320);
  const refused = { action: 'user.single_sign_on_refused', actor: 'unknown', target };
  await recordOperatorAudit(tx, { at, ip, requestId, ...refused, details: { reason, issuer, subject } });
  return reason;
}

interface Met {
  /** Locked; undefined if it must be created. */
  user: User | undefined;
  email: string;
  isLinked: boolean;
}

async function meet(tx: Tx, claims: Claims, email: string | undefined, mayCreate: boolean) {
  const known = await findIdentityOwner(tx, claims);
  const owner = known && (await lockUser(tx, { id: known.id }));
  if (owner) return { user: owner, email: owner.email, isLinked: true };
  if (!claims.isEmailVerified || claims.email === undefined) return 'unverified_address';
  if (email === undefined) return 'unusable_address';
  const user = await lockUser(tx, { email });
  if (!user) return mayCreate ? { user, email, isLinked: false } : 'no_account';
  const identity = await findIdentity(tx, user.id, claims.issuer);
  if (identity && identity.subject !== claims.subject) return 'other_identity';
  return { user, email, isLinked: identity !== undefined };
}

/** Takes the account from whoever created it without proving the address. */
async function link(
  tx: Tx,
  deps: MailDeps,
  { user, email, isLinked, claims, passwordHash }: Met & { claims: Claims; passwordHash: string },
  organizations: string[],
  arrival: Arrival,
): Promise<User> {
  const { issuer, subject } = claims;
  const { at } = arrival;
  const name = claims.name?.trim().slice(0, 200) || undefined;
  const person = user ?? {
    id: uuid(),
    email,
    name: name ?? email,
    passwordHash,
    createdAt: at,
    provenAt: at,
  };
  const author = { userId: person.id, email };
  if (!user) await insertUser(tx, person);
  const isUnproven = person.provenAt === null;
  const isTheirs = isUnproven && !isLinked && (await hasFormer(tx, person.id, arrival));
  const alien = isUnproven && !isLinked && !isTheirs ? await listMadeByMembers(tx, person.id) : [];
  await lockLogs(tx, [...organizations, ...alien.map(({ orgId }) => orgId)]);
  if (!isLinked) await insertIdentity(tx, { issuer, subject, userId: person.id, createdAt: at });
  await proveAddress(tx, person.id, at);
  if (isUnproven && !isTheirs) {
    await updateUser(tx, person.id, { passwordHash, ...(name !== undefined && { name }) });
    const former = arrival.formerToken === undefined ? undefined : hashToken(arrival.formerToken);
    const sessionsEnded = await endAccess(tx, person.id, former);
    await endMemberships(tx, author, alien, arrival);
    const details = { issuer, subject, sessionsEnded, membershipsEnded: alien.length };
    await auditPerson(tx, author, 'user.taken_over', arrival, details);
  }
  if (!user) await auditPerson(tx, author, 'user.created', arrival, { after: { name: person.name } });
  if (!isLinked) await auditPerson(tx, author, 'user.identity_linked', arrival, { issuer, subject });
  if (user && !isLinked) await mailAccountNotice(tx, deps, email, 'identityAdded', arrival);
  return person;
}

/** The session began with the account's password or passkey. */
async function hasFormer(tx: Tx, userId: string, { formerToken, at }: Arrival): Promise<boolean> {
  return formerToken !== undefined && hasOwnSession(tx, { hashedToken: hashToken(formerToken), userId }, at);
}

async function listMadeByMembers(tx: Tx, userId: string) {
  const found = [];
  for (const membership of await listMembershipsOf(tx, userId))
    if (await isByMemberAlone(tx, membership)) found.push(membership);
  return found;
}

async function endMemberships(
  tx: Tx,
  { userId, email }: { userId: string; email: string },
  ended: readonly { orgId: string; role: Role }[],
  { at, ip, requestId }: Arrival,
): Promise<void> {
  for (const { orgId, role } of ended) {
    await deleteMembership(tx, orgId, userId);
    const details = { before: { role }, takenOver: true };
    const entry = { at, ip, requestId, action: 'member.removed', actor: 'single_sign_on', target: email };
    await recordAudit(tx, orgId, { ...entry, details });
  }
}

/** The session has already passed the second factor. Undefined without a session, or if it must confirm again. */
async function raiseFormer(
  tx: Tx,
  { id: userId, email }: User,
  { isConfirmation, isFresh, claimed }: Proof & { claimed: { set: () => Promise<void> } | null },
  arrival: Arrival,
): Promise<SignedIn | undefined> {
  const hasFactor = await hasSecondFactor(tx, userId);
  if (arrival.formerToken === undefined || (hasFactor && isConfirmation)) return undefined;
  const isConfirmed = isFresh && !hasFactor;
  const token = generateToken();
  const tokens = { hashedToken: hashToken(arrival.formerToken), newHashedToken: hashToken(token) };
  if (!(await raiseSession(tx, { ...tokens, userId, isConfirmed }, arrival.at))) return undefined;
  await claimed?.set();
  const details = { singleSignOn: true, sameSession: true };
  await auditPerson(tx, { userId, email }, 'user.signed_in', arrival, details);
  return { token, isCodeDue: false };
}

const WAIVED_MS = HOUR_MS;

/** Call this only if the issuer is down. */
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
    await recordAudit(tx, orgId, { ...source, action: 'member.single_sign_on_waived', target: by.email });
  });
}

/** The next single sign-on links the account again. */
export async function unlink(tx: Tx, email: string, source: Source): Promise<void> {
  const user = await getUser(tx, email);
  if (!(await deleteIdentities(tx, user.id)))
    throw new AppError('not_found', `The user "${email}" has never used single sign-on.`);
  await recordOperatorAudit(tx, { ...source, action: 'user.identity_unlinked', target: email });
}
