import {
  earlierTarget,
  fieldOf,
  linkTo,
  mode,
  say,
  textOf,
  type LoggedAction,
  type Wording,
} from '../../accounts/audit/wording.js';
import { formatCount, formatDay, formatDecimal, formatMonth, formatTime } from '../../core/pages/format.js';
import { toAddress } from '../../core/pages/address.js';
import { defaultThresholds, readLimits } from '../entitlements/limits.js';
import { listProductsBySlug } from '../entitlements/queries.js';
import { creditAlertKinds } from '../notices/kinds.js';
import { listPlanNames } from '../plans/queries.js';
import { compareLimits, writeLimitChange } from '../plans/view.js';

const pages: Wording['pages'] = {
  entitlement: () => '/dashboard/entitlements',
  plan: () => '/dashboard/entitlements',
  credits: () => '/dashboard/credits',
  usage: () => '/dashboard/usage',
  usage_alert: () => '/dashboard/usage/alerts',
};

const titles: Wording['titles'] = {
  'credits.granted': 'Credits granted',
  'credits.voided': 'Credit grant voided',
  'credits.forgiven': 'Overdraft forgiven',
  'usage.archived': 'Events archived',
  'usage.corrected': 'Events corrected',
  'usage.events_sent': 'Events sent by the operator',
  'usage.stripe_decided': 'Stripe meter event decided',
};

const sentences: Wording['sentences'] = {
  'credits.granted': (entry) =>
    isOfPlan(entry)
      ? say`Granted ${credits(textOf(entry.details.after, 'amount'), entry)} by the plan ${planOf(entry)}${begins(entry)}`
      : say`Granted ${credits(textOf(entry.details.after, 'amount'), entry)}: ${reason(entry, entry.details.after)}${begins(entry)}`,
  'credits.voided': (entry) =>
    say`Voided a grant ${isOfPlan(entry) ? 'of the plan ' : ''}with ${credits(textOf(entry.details, 'forfeited'), entry)} left: ${reason(entry, entry.details)}`,
  'credits.forgiven': (entry) =>
    say`Forgave an overdraft of ${target(entry)} of ${credits(textOf(entry.details, 'forgiven'), entry)}`,
  'plan.started': (entry) => say`Put the Organization on the ${target(entry)} plan`,
  'plan.changed': (entry) => {
    const earlier = earlierTarget(entry);
    return earlier === ''
      ? say`Changed the plan ${target(entry)}`
      : say`Moved the Organization from ${{ name: nameOf(entry, earlier) }} to ${target(entry)}`;
  },
  'plan.ended': (entry) => say`Ended the plan ${target(entry)}`,
  'plan.created': (entry) => say`Created the plan ${target(entry)}`,
  'entitlement.granted': (entry) => say`Granted ${kind(entry)}access to ${target(entry)}`,
  'entitlement.changed': (entry) => {
    const changes = listTermChanges(entry.details.before, entry.details.after, (plan) => nameOf(entry, plan))
      .map(({ label, was, will }) => `${label} ${was} → ${will}`)
      .join(', ');
    return say`Changed the entitlement to ${target(entry)}${changes && `: ${changes}`}`;
  },
  'entitlement.withdrawn': (entry) => say`Withdrew the entitlement to ${target(entry)}`,
  'product.created': (entry) => say`Created the product ${target(entry)}`,
  'product.changed': (entry) => say`Changed the product ${target(entry)}`,
  'product.archived': (entry) => say`Archived the product ${target(entry)}`,
  'product.restored': (entry) => say`Restored the product ${target(entry)}`,
  'usage_alert.added': (entry) => [...say`Added an alert at `, ...alertLevel(entry)],
  'usage_alert.removed': (entry) => [...say`Removed the alert at `, ...alertLevel(entry)],
  'usage.archived': (entry) => say`Archived ${mode(entry)}${eventsOf(entry, 'events')} of ${monthOf(entry)}`,
  'usage.corrected': (entry) =>
    entry.details.corrections === 1
      ? say`Corrected the event ${event(entry)}${quantities(entry)}`
      : say`Corrected ${target(entry)}`,
  'usage.events_sent': (entry) =>
    say`Sent ${mode(entry)}${eventsOf(entry, 'events')}, beginning with ${{ name: entry.target }}`,
  'usage.stripe_decided': (entry) =>
    say`Marked the Stripe meter event ${{ name: entry.target }} as ${textOf(entry.details, 'state') === 'sent' ? 'received' : 'missing'}`,
  'usage.totals_repaired': ({ details }) => {
    const totals = formatCount(countOf(details.totals), 'total');
    return say`Set ${totals} and ${formatCount(countOf(details.hours), 'hour')} of usage to the sums of their events`;
  },
};

const names: Wording['names'] = {
  plan: listPlanNames,
  product: listProductsBySlug,
  entitlement: listProductsBySlug,
  usage_alert: listProductsBySlug,
  'credits.forgiven': listProductsBySlug,
};

export const auditWording: Wording = { sentences, titles, pages, names };

/** Its key is one that the service made, with the time of the period. */
const isOfPlan = ({ target: key }: LoggedAction): boolean => key.startsWith('plan:');

const target = (entry: LoggedAction, name = entry.name ?? entry.target) => ({
  name,
  href: linkTo({ pages }, entry),
});

const event = ({ target: name, details: { changes } }: LoggedAction) => {
  const mode = fieldOf(fieldOf(changes, '0'), 'livemode') === false ? 'test' : 'live';
  return { name, href: toAddress('/dashboard/usage', { mode, event: name }) };
};

const reason = (entry: LoggedAction, details: unknown) =>
  target(entry, textOf(details, 'reason') || entry.target);

const nameOf = ({ nameOf }: LoggedAction, plan: string): string => nameOf?.('plan', plan) ?? plan;

const planOf = (entry: LoggedAction) => ({
  name: nameOf(entry, textOf(entry.details.after, 'plan')),
  href: entry.action.startsWith('plan.') ? linkTo({ pages }, entry) : undefined,
});

function quantities({ details: { changes } }: LoggedAction): string {
  const [was, will] = ['before', 'after'].map((name) => textOf(fieldOf(changes, '0'), name));
  return was && will ? `: ${formatDecimal(was)} → ${formatDecimal(will)}` : '';
}

/** Tells the periods of a plan apart. */
function begins({ details: { after } }: LoggedAction): string {
  const startsAt = new Date(textOf(after, 'startsAt'));
  return Number.isNaN(startsAt.getTime()) ? '' : `, from ${formatDay(startsAt)}`;
}

const monthOf = ({ target: month }: LoggedAction): string =>
  /^\d{4}-(0[1-9]|1[0-2])$/.test(month) ? formatMonth(new Date(month)) : month;

function eventsOf({ details }: LoggedAction, field: string): string {
  const events = fieldOf(details, field);
  return typeof events === 'number' ? formatCount(events, 'event') : 'events';
}

const credits = (amount: string, entry?: LoggedAction): string =>
  `${amount === '' ? '' : `${formatDecimal(amount)} `}${entry ? mode(entry) : ''}credit${amount === '1' ? '' : 's'}`;

function alertLevel(entry: LoggedAction) {
  const levelOf = (name: string) => fieldOf(entry.details, name);
  const kind = creditAlertKinds.find(({ detail }) => typeof levelOf(detail) === 'number');
  return kind
    ? say`${credits(String(levelOf(kind.detail)))} ${kind.what}`
    : say`${`${String(levelOf('percent'))}%`} of the cap of ${target(entry)}`;
}

export const SET_BY = 'set';

/** Absent fields mean a default. */
const terms: [string, string, string, (value: string, nameOfPlan: (slug: string) => string) => string][] = [
  ['kind', 'kind', '', (kind) => kind.replace('_', '-')],
  ['unitCap', 'cap', 'the product’s', formatDecimal],
  ['thresholds', 'thresholds', defaultThresholds.join(', '), (thresholds) => thresholds || 'none'],
  ['startsAt', 'start', '', (at) => formatTime(new Date(at))],
  ['endsAt', 'end', 'none', (at) => formatTime(new Date(at))],
  ['features', 'features', 'the product’s', (features) => features.split('\n').join(', ')],
  ['plan', SET_BY, 'by hand', (plan, nameOf) => `by the plan ${nameOf(plan)}`],
];

export function listTermChanges(before: unknown, after: unknown, nameOfPlan: (slug: string) => string) {
  const changes = terms.flatMap(([name, label, none, format]) => {
    const [was, will] = [before, after].map((fields) => {
      const value = fieldOf(fields, name);
      return value === null ? 'none' : typeof value === 'string' ? format(value, nameOfPlan) : none;
    });
    return was === will ? [] : [{ label, was: was!, will: will! }];
  });
  const [was, will] = [before, after].map((fields) => readLimits(textOf(fields, 'limits')));
  return [...compareLimits(was, will).map(writeLimitChange), ...changes];
}

const kind = ({ details }: LoggedAction): string => {
  const kind = textOf(details.after, 'kind');
  return kind === '' ? '' : `${kind.replace('_', '-')} `;
};

const countOf = (value: unknown): number => {
  const rows = fieldOf(value, 'rows');
  return typeof rows === 'number' ? rows : 0;
};
