import { inArray } from 'drizzle-orm';
import { organizations } from '../organizations/table.js';
import { formatCount, formatGrace } from '../../core/pages/format.js';
import { MINUTE_MS } from '../../core/time.js';
import { fieldOf, linkTo, mode, say, textOf, type LoggedAction, type Wording } from './wording.js';

const pages: Wording['pages'] = {
  api_key: (target) => `/dashboard/api-keys/${encodeURIComponent(target)}`,
  member: () => '/dashboard/members',
  invitation: () => '/dashboard/members',
  webhook: (target) => `/dashboard/webhooks/${encodeURIComponent(target)}`,
};

const titles: Wording['titles'] = {
  'api_key.created': 'API key created',
  'api_key.rotated': 'API key rotated',
  'api_key.renamed': 'API key renamed',
  'api_key.revoked': 'API key revoked',
  'service_key.first_used': 'Service key first used',
  'service_key.created': 'Service key created',
  'service_key.rotated': 'Service key rotated',
  'service_key.revoked': 'Service key revoked',
  'portal_session.created': 'Portal opened for API keys',
  'portal_session.ended': 'Portal sessions ended',
  'user.confirmed': 'Confirmed who they are',
  'customer.viewed': 'Viewed as the customer',
  'member.role_changed': 'Role changed',
  'organization.updated': 'Organization changed',
  'webhook.created': 'Webhook endpoint created',
  'webhook.updated': 'Webhook endpoint changed',
  'webhook.deleted': 'Webhook endpoint deleted',
  'webhook.disabled': 'Webhook endpoint disabled',
  'webhook.resent': 'Webhooks sent again',
};

const sentences: Wording['sentences'] = {
  'api_key.created': (entry) => say`Created the ${mode(entry)}API key ${key(entry)}${voucher(entry)}`,
  'api_key.rotated': (entry) =>
    say`Rotated the ${mode(entry)}API key ${key(entry)}${grace(entry)}${voucher(entry)}`,
  'api_key.renamed': (entry) =>
    say`Renamed the ${mode(entry)}API key ${{ name: textOf(entry.details.before, 'name') }} to ${key(entry)}${voucher(entry)}`,
  'api_key.revoked': (entry) => say`Revoked the ${mode(entry)}API key ${key(entry)}${voucher(entry)}`,
  'service_key.first_used': (entry) =>
    say`First used the ${mode(entry)}service key ${key(entry)} for this Organization`,
  'service_key.created': (entry) => say`Created the ${mode(entry)}service key ${key(entry)}`,
  'service_key.rotated': (entry) => say`Rotated the ${mode(entry)}service key ${key(entry)}${grace(entry)}`,
  'service_key.revoked': (entry) => say`Revoked the ${mode(entry)}service key ${key(entry)}`,
  'portal_session.created': (entry) =>
    say`Created a link to the portal, in which ${{ name: entry.target }} can manage API keys`,
  'customer.viewed': (entry) =>
    say`Viewed the portal of ${{ name: entry.name ?? entry.target }} as the customer`,
  'portal_session.ended': () => say`Ended all sessions of the portal`,
  'invitation.revoked': (entry) => say`Revoked the invitation of ${target(entry)}`,
  'member.added': (entry) => say`Added ${target(entry)}${as(entry.details.after)}`,
  'member.invited': (entry) => say`Invited ${target(entry)}${as(entry.details)}`,
  'member.joined': (entry) =>
    entry.email === entry.target
      ? say`Accepted an invitation${as(entry.details.after)}`
      : say`${target(entry)} accepted an invitation${as(entry.details.after)}`,
  'member.role_changed': (entry) =>
    say`Changed the role of ${target(entry)} from ${textOf(entry.details.before, 'role')} to ${textOf(entry.details.after, 'role')}`,
  'member.single_sign_on_waived': () =>
    say`Signed in without single sign-on for an hour, because the issuer was down`,
  'member.removed': (entry) => {
    if (entry.email === entry.target) return say`Left the Organization`;
    return say`Removed ${target(entry)}${removalReason(entry.details)}`;
  },
  'organization.created': (entry) =>
    say`Created the Organization ${{ name: textOf(entry.details.after, 'name') }}`,
  'organization.updated': (entry) => {
    const { before, after } = entry.details;
    const name = textOf(after, 'name');
    const changes = [factorChange, singleSignOnChange, accessChange, correctChange, stripeChange];
    const others = changes
      .map((describe) => describe(after))
      .filter((change) => change !== '')
      .join(', and ');
    if (name === '' && others !== '') return say`${others.charAt(0).toUpperCase() + others.slice(1)}`;
    return say`Renamed the Organization from ${{ name: textOf(before, 'name') }} to ${{ name }}${others && `, and ${others}`}`;
  },
  'organization.archived': () => say`Archived the Organization`,
  'organization.restored': () => say`Restored the Organization`,
  'operator.added': (entry) =>
    isOwn(entry) ? say`Became an operator` : say`Made ${target(entry)} an operator`,
  'operator.removed': (entry) => say`Removed the operator ${target(entry)}`,
  'user.confirmed': () => say`Confirmed who they are`,
  'user.created': (entry) =>
    isOwn(entry) ? say`Created this account` : say`Created the account of ${target(entry)}`,
  'user.removed': (entry) =>
    isOwn(entry) ? say`Removed this account` : say`Removed the account of ${target(entry)}`,
  'user.signed_in': (entry) => (isOwn(entry) ? say`Signed in` : say`Signed in as ${target(entry)}`),
  'user.signed_out': (entry) => (isOwn(entry) ? say`Signed out` : say`Signed out ${target(entry)}`),
  'webhook.created': (entry) => say`Created the ${mode(entry)}webhook endpoint ${endpoint(entry)}`,
  'webhook.updated': (entry) => say`Changed the webhook endpoint ${endpoint(entry)}`,
  'webhook.deleted': (entry) =>
    say`Deleted the webhook endpoint ${{ name: textOf(entry.details, 'url') || entry.target }}`,
  'webhook.disabled': (entry) =>
    say`Disabled the webhook endpoint ${endpoint(entry)}: ${entry.details.reason === 'gone' ? 'it answered 410' : 'every delivery failed for five days'}`,
  'webhook.secret_rotated': (entry) =>
    say`Rotated the secret of the webhook endpoint ${endpoint(entry)}${grace(entry)}`,
  'webhook.tested': (entry) => say`Sent a test to the webhook endpoint ${endpoint(entry)}`,
  'webhook.resent': (entry) => {
    const { resent } = entry.details;
    const what = typeof resent === 'number' ? formatCount(resent, 'message') : 'a message';
    return say`Sent ${what} again to the webhook endpoint ${endpoint(entry)}`;
  },
};

const names: Wording['names'] = {
  'customer.viewed': (orm, slugs) =>
    orm
      .select({ slug: organizations.slug, name: organizations.name })
      .from(organizations)
      .where(inArray(organizations.slug, [...slugs])),
};

export const accountWording: Wording = { sentences, titles, pages, names };

function removalReason({ userRemoved, takenOver }: Record<string, unknown>): string {
  if (userRemoved === true) return ', whose account was removed';
  return takenOver === true ? ', because the address proved to belong to another person' : '';
}

const hrefOf = (entry: LoggedAction) => linkTo({ pages }, entry);
const target = (entry: LoggedAction) => ({ name: entry.target, href: hrefOf(entry) });
const isOwn = (entry: LoggedAction): boolean => entry.email === entry.target;
const key = (entry: LoggedAction) => ({
  name: textOf(entry.details, 'name') || entry.target,
  href: hrefOf(entry),
});

const endpoint = (entry: LoggedAction) => ({
  name: textOf(entry.details, 'url') || entry.target,
  href: hrefOf(entry),
});

/** A person in a portal has not signed in. */
const voucher = ({ details }: LoggedAction): string =>
  fieldOf(details, 'voucher') === undefined ? '' : ', in the portal';

function grace({ details: { graceMinutes } }: LoggedAction): string {
  if (typeof graceMinutes !== 'number') return '';
  return graceMinutes === 0
    ? ', with no grace period'
    : `, with a grace period of ${formatGrace(graceMinutes * MINUTE_MS)}`;
}

const factorChange = (after: unknown): string => {
  const factor = textOf(after, 'requireSecondFactor');
  if (factor === '') return '';
  return factor === 'yes' ? 'required a second factor for every member' : 'stopped requiring a second factor';
};

const singleSignOnChange = (after: unknown): string => {
  const singleSignOn = textOf(after, 'requireSingleSignOn');
  if (singleSignOn === '') return '';
  return singleSignOn === 'yes'
    ? 'required single sign-on for every member'
    : 'stopped requiring single sign-on';
};

const accessChange = (after: unknown): string => {
  const access = textOf(after, 'marketAccess');
  return access === '' ? '' : `set market access to ${access === 'read' ? 'reduce only' : access}`;
};

const correctChange = (after: unknown): string => {
  const mayCorrect = textOf(after, 'mayCorrect');
  if (mayCorrect === '') return '';
  return mayCorrect === 'yes' ? 'allowed it to correct its usage' : 'stopped it from correcting its usage';
};

const stripeChange = (after: unknown): string => {
  if (fieldOf(after, 'stripeCustomerId') === undefined) return '';
  return textOf(after, 'stripeCustomerId') === '' ? 'removed the Stripe customer' : 'set the Stripe customer';
};

const as = (fields: unknown): string => {
  const role = textOf(fields, 'role');
  return role === '' ? '' : ` as ${role}`;
};
