import { formatCount } from '../../core/pages/format.js';

/** Part of a sentence. A `name` was typed by a person, in any script; it may link to a page. */
export type Part = { text: string } | { name: string; href: string | undefined };

export interface Told {
  action: string;
  target: string;
  details: Record<string, unknown>;
  email: string | null;
}

/** Describes an entry in a sentence without a subject; an unknown action is described by its name. */
export function tell(entry: Told): Part[] {
  const sentence = own(sentences, entry.action);
  return sentence ? sentence(entry) : say`${{ name: toWords(entry.action) }}: ${{ name: entry.target }}`;
}

export const toText = (parts: Part[]): string =>
  parts.map((part) => ('text' in part ? part.text : part.name)).join('');

export const titleOf = (action: string): string => own(titles, action) ?? toWords(action);

export function linkTo({ action, target }: Pick<Told, 'action' | 'target'>): string | undefined {
  const noun = action.split('.', 1)[0]!;
  if (noun === 'webhook') return `/dashboard/webhooks/${encodeURIComponent(target)}`;
  if (noun === 'api_key') return `/dashboard/api-keys/${encodeURIComponent(target)}`;
  return own(pages, noun);
}

/** Own properties only: an action may be any text, including `constructor`. */
const own = <T>(record: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

const pages: Record<string, string> = {
  entitlement: '/dashboard/entitlements',
  member: '/dashboard/members',
  invitation: '/dashboard/members',
  trading_limits: '/dashboard/portfolio/risk',
  trading_switch: '/dashboard/portfolio/risk',
  usage: '/dashboard/usage',
};

/** Titles of actions whose names would not convert well. */
const titles: Record<string, string> = {
  'api_key.created': 'API key created',
  'api_key.rotated': 'API key rotated',
  'api_key.renamed': 'API key renamed',
  'api_key.revoked': 'API key revoked',
  'member.role_changed': 'Role changed',
  'organization.updated': 'Organization changed',
  'trading_limits.declared': 'Risk limits set',
  'trading_limits.withdrawn': 'Risk limits removed',
  'usage.archived': 'Events archived',
  'usage.backfill_opened': 'Backfill opened',
  'usage.backfill_applying': 'Backfill started',
  'usage.backfill_applied': 'Backfill applied',
  'usage.backfill_reverting': 'Backfill revert started',
  'usage.backfill_reverted': 'Backfill reverted',
  'usage.backfill_discarding': 'Backfill discard started',
  'usage.backfill_discarded': 'Backfill discarded',
  'usage.corrected': 'Events corrected',
  'webhook.created': 'Webhook endpoint created',
  'webhook.updated': 'Webhook endpoint changed',
  'webhook.deleted': 'Webhook endpoint deleted',
  'webhook.disabled': 'Webhook endpoint disabled',
  'webhook.resent': 'Webhooks sent again',
};

const switchOf: Record<string, string> = { own: "Organization's own", service: "whole service's" };

const sentences: Record<string, (entry: Told) => Part[]> = {
  'api_key.created': (entry) => say`Created the ${mode(entry)}API key ${key(entry)}`,
  'api_key.rotated': (entry) => say`Rotated the ${mode(entry)}API key ${key(entry)}${grace(entry)}`,
  'api_key.renamed': (entry) =>
    say`Renamed the ${mode(entry)}API key ${{ name: textOf(entry.details.before, 'name') }} to ${key(entry)}`,
  'api_key.revoked': (entry) => say`Revoked the ${mode(entry)}API key ${key(entry)}`,
  'entitlement.granted': (entry) => say`Granted ${kind(entry)}access to ${target(entry)}`,
  'entitlement.changed': (entry) => say`Changed the entitlement to ${target(entry)}`,
  'entitlement.withdrawn': (entry) => say`Withdrew the entitlement to ${target(entry)}`,
  'invitation.revoked': (entry) => say`Revoked the invitation of ${target(entry)}`,
  'member.added': (entry) => say`Added ${target(entry)}${as(entry.details.after)}`,
  'member.invited': (entry) => say`Invited ${target(entry)}${as(entry.details)}`,
  'member.joined': (entry) =>
    entry.email === entry.target
      ? say`Accepted an invitation${as(entry.details.after)}`
      : say`${target(entry)} accepted an invitation${as(entry.details.after)}`,
  'member.role_changed': (entry) =>
    say`Changed the role of ${target(entry)} from ${textOf(entry.details.before, 'role')} to ${textOf(entry.details.after, 'role')}`,
  'member.removed': (entry) => {
    if (entry.email === entry.target) return say`Left the Organization`;
    return say`Removed ${target(entry)}${entry.details.userRemoved === true ? ', whose account is gone' : ''}`;
  },
  'organization.created': (entry) =>
    say`Created the Organization ${{ name: textOf(entry.details.after, 'name') }}`,
  'organization.updated': (entry) => {
    const { before, after } = entry.details;
    const name = textOf(after, 'name');
    const others = [factorChange(after), accessChange(after)]
      .filter((change) => change !== '')
      .join(', and ');
    if (name === '' && others !== '') return say`${others.charAt(0).toUpperCase() + others.slice(1)}`;
    return say`Renamed the Organization from ${{ name: textOf(before, 'name') }} to ${{ name }}${others && `, and ${others}`}`;
  },
  'organization.archived': () => say`Archived the Organization`,
  'organization.restored': () => say`Restored the Organization`,
  'trading_limits.declared': (entry) => say`Set the ${limits(entry)}`,
  'trading_limits.withdrawn': (entry) => say`Removed the ${limits(entry)}: the defaults apply`,
  'trading_switch.changed': (entry) => {
    const { after } = entry.details;
    const own = switchOf[entry.target] ?? "operator's";
    const state = to(textOf(after, 'state'));
    const reason = textOf(after, 'reason');
    const change = state === '' ? 'Changed the reason of' : 'Set';
    if (reason === '')
      return say`${change} the ${own} ${{ name: 'trading switch', href: linkTo(entry) }}${state}`;
    return say`${change} the ${own} ${{ name: 'trading switch', href: linkTo(entry) }}${state}: ${{ name: reason }}`;
  },
  'usage.archived': (entry) =>
    say`Archived ${mode(entry)}${eventsOf(entry, 'events')} of ${{ name: entry.target }}`,
  'usage.backfill_opened': (entry) => say`Opened a backfill of ${mode(entry)}events`,
  'usage.backfill_applying': (entry) => say`Began to apply a backfill of ${mode(entry)}events`,
  'usage.backfill_applied': (entry) => say`Applied a backfill of ${mode(entry)}${eventsOf(entry, 'events')}`,
  'usage.backfill_reverting': (entry) => say`Began to revert a backfill of ${mode(entry)}events`,
  'usage.backfill_reverted': (entry) =>
    say`Reverted a backfill of ${mode(entry)}${eventsOf(entry, 'reverted')}`,
  'usage.backfill_discarding': (entry) => say`Began to discard a backfill of ${mode(entry)}events`,
  'usage.backfill_discarded': (entry) => say`Discarded a backfill of ${mode(entry)}events`,
  'usage.corrected': (entry) =>
    entry.details.corrections === 1
      ? say`Corrected the event ${{ name: entry.target, href: linkTo(entry) }}`
      : say`Corrected ${{ name: entry.target, href: linkTo(entry) }}`,
  'usage.totals_repaired': ({ details }) => {
    const totals = formatCount(countOf(details.totals), 'total');
    return say`Set ${totals} and ${formatCount(countOf(details.hours), 'hour')} of usage to the sums of their events`;
  },
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

function say(
  texts: TemplateStringsArray,
  ...values: (string | { name: string; href?: string | undefined })[]
): Part[] {
  const parts: Part[] = [];
  for (const [i, text] of texts.entries()) {
    if (text !== '') parts.push({ text });
    const value = values[i];
    if (typeof value === 'object') parts.push({ name: value.name, href: value.href });
    else if (value !== undefined && value !== '') parts.push({ text: value });
  }
  return parts;
}

const target = (entry: Told) => ({ name: entry.target, href: linkTo(entry) });
const key = (entry: Told) => ({ name: textOf(entry.details, 'name') || entry.target, href: linkTo(entry) });

const endpoint = (entry: Told) => ({
  name: textOf(entry.details, 'url') || entry.target,
  href: linkTo(entry),
});

const mode = ({ details: { livemode } }: Told): string =>
  typeof livemode === 'boolean' ? `${livemode ? 'live' : 'test'} ` : '';

function eventsOf({ details }: Told, field: string): string {
  const events = fieldOf(details, field);
  return typeof events === 'number' ? formatCount(events, 'event') : 'events';
}

function grace({ details: { graceMinutes } }: Told): string {
  if (typeof graceMinutes !== 'number') return '';
  return graceMinutes === 0
    ? ', with no grace period'
    : `, with a grace period of ${formatCount(graceMinutes, 'minute')}`;
}

const kind = ({ details }: Told): string => {
  const kind = textOf(details.after, 'kind');
  return kind === '' ? '' : `${toWords(kind).toLowerCase()} `;
};

const factorChange = (after: unknown): string => {
  const factor = textOf(after, 'requireSecondFactor');
  if (factor === '') return '';
  return factor === 'yes' ? 'required a second factor of every member' : 'stopped requiring a second factor';
};

const accessChange = (after: unknown): string => {
  const access = textOf(after, 'marketAccess');
  return access === '' ? '' : `set the access to markets to ${access}`;
};

const limits = (entry: Told) => ({ name: 'risk limits', href: linkTo(entry) });

const to = (state: string): string => (state === '' ? '' : ` to ${toWords(state).toLowerCase()}`);

const as = (fields: unknown): string => {
  const role = textOf(fields, 'role');
  return role === '' ? '' : ` as ${role}`;
};

/** Reads a field of any value: rows may come from any version. */
function fieldOf(value: unknown, name: string): unknown {
  const isObject = typeof value === 'object' && value !== null;
  return isObject && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

const textOf = (value: unknown, name: string): string => {
  const field = fieldOf(value, name);
  return typeof field === 'string' ? field : '';
};

const countOf = (value: unknown): number => {
  const rows = fieldOf(value, 'rows');
  return typeof rows === 'number' ? rows : 0;
};

function toWords(word: string): string {
  const words = word.replaceAll(/[._]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
