import { v7 as uuid } from 'uuid';
import { toAddress } from '../../src/core/pages/address.js';
import { Browser, PASSWORD } from '../support/accounts.js';
import type { Populated } from './populated.js';

/** Callers, in the order of the statuses in each row. */
export const actors = ['nobody', 'member', 'billing', 'admin', 'owner'] as const;
export type Actor = (typeof actors)[number];

export type Statuses = readonly [
  nobody: number,
  member: number,
  billing: number,
  admin: number,
  owner: number,
];

export interface Row {
  /** The path of an Organization's object. If omitted, the route's own path. */
  path?: (of: Populated, actor: Actor) => string | Promise<string>;
  /** The form to submit; empty if omitted. */
  form?: (of: Populated) => Record<string, string> | Promise<Record<string, string>>;
  /** The status for each role with ids of the same Organization. */
  own: Statuses;
  /** The status with ids of another Organization; undefined if neither the path nor the form names an object. */
  foreign?: Statuses;
  /** True if a successful request ends the session that sent it. */
  endsSession?: true;
  /** A guard in front of the route refuses every role alike, so only the owner is tested. */
  forOperators?: true;
}

/** A page for every signed-in person; others are redirected to the sign-in page. */
const page: Statuses = [303, 200, 200, 200, 200];
/** A page for roles that may change things. */
const managersPage: Statuses = [303, 403, 403, 200, 200];
/** A form for roles that may change things; redirects to another page. */
const managersForm: Statuses = [401, 403, 403, 303, 303];
/** A form that responds with a page, because the page shows a secret. */
const managersSecret: Statuses = [401, 403, 403, 201, 201];
/** A form about the person's own account. */
const personsForm: Statuses = [401, 303, 303, 303, 303];
const personsMistake: Statuses = [401, 400, 400, 400, 400];
const operatorsForm: Statuses = [401, 403, 403, 403, 403];
/** A route that does not exist for any signed-in person. */
const noPage: Statuses = [303, 404, 404, 404, 404];
const noManagersPage: Statuses = [303, 403, 403, 404, 404];
const noManagersForm: Statuses = [401, 403, 403, 404, 404];

const usages = {
  'get /dashboard': { own: page },
  'get /dashboard/usage': {
    path: ({ productSlugs, keyIds }) => `/dashboard/usage?product=${productSlugs[0]}&key=${keyIds[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/products': { own: page },
  'get /dashboard/usage.csv': {
    path: ({ productSlugs }) => `/dashboard/usage.csv?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/events': {
    path: ({ productSlugs }) => `/dashboard/usage/events?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/events.csv': {
    path: ({ productSlugs }) => `/dashboard/usage/events.csv?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/events/correction': {
    path: ({ eventKeys }) =>
      toAddress('/dashboard/usage/events/correction', { idempotencyKey: eventKeys[0], what: 'void' }),
    // No `foreign` status, because the page shows any key given in the URL. The form below is tested with the other
    // Organization's key.
    own: managersPage,
  },
  'post /dashboard/usage/events/correction': {
    form: ({ eventKeys }) => ({
      idempotencyKey: eventKeys[0]!,
      quantity: '1',
      reason: 'Counted twice',
      correctionKey: uuid(),
    }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/entitlements': { own: page },
  'get /dashboard/credits': {
    path: ({ productSlugs }) => `/dashboard/credits?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/credits/ledger': {
    path: ({ productSlugs }) => `/dashboard/credits/ledger?product=${productSlugs[0]}`,
    own: page,
    // With foreign ids, the filter matches nothing.
    foreign: page,
  },
  'get /dashboard/credits/ledger.csv': {
    path: ({ productSlugs }) => `/dashboard/credits/ledger.csv?product=${productSlugs[0]}`,
    own: page,
    foreign: page,
  },
  'get /dashboard/audit-log': {
    path: ({ people }) => `/dashboard/audit-log?actor=${people.owner.id}`,
    own: managersPage,
    // With foreign ids, the filter matches nothing.
    foreign: managersPage,
  },
  'get /dashboard/audit-log.csv': {
    path: ({ people }) => `/dashboard/audit-log.csv?actor=${people.owner.id}`,
    own: managersPage,
    foreign: managersPage,
  },
} satisfies Record<string, Row>;

const risk = {
  'get /dashboard/portfolio/risk': { own: page },
  'get /dashboard/portfolio/risk/switch': {
    path: () => '/dashboard/portfolio/risk/switch?state=halt',
    own: managersPage,
  },
  'post /dashboard/portfolio/risk/switch': {
    // Leaves trading open, because closing it would cause the orders of other rows to be refused.
    form: () => ({ state: 'open' }),
    own: managersForm,
  },
} satisfies Record<string, Row>;

const keys = {
  'get /dashboard/api-keys': { own: page },
  'get /dashboard/api-keys/new': {
    path: ({ keyIds }) => `/dashboard/api-keys/new?like=${keyIds[0]}`,
    own: managersPage,
    // With a foreign id, the form is empty.
    foreign: managersPage,
  },
  'post /dashboard/api-keys': {
    form: () => ({ id: uuid(), name: 'made by a form', livemode: 'false', scopes: 'usage:write' }),
    own: managersSecret,
  },
  'get /dashboard/api-keys/{id}': {
    path: ({ keyIds }) => `/dashboard/api-keys/${keyIds[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/api-keys/{id}/cut-over': {
    path: ({ rotated }) => `/dashboard/api-keys/${rotated.newKeyId}/cut-over`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/api-keys/{id}/rotate': {
    path: ({ keyIds }) => `/dashboard/api-keys/${keyIds[0]}/rotate`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/api-keys/{id}/rotate': {
    path: async (of) => `/dashboard/api-keys/${(await of.newKey()).id}/rotate`,
    form: () => ({ grace: '60' }),
    own: managersSecret,
    foreign: noManagersForm,
  },
  'get /dashboard/api-keys/{id}/rename': {
    path: ({ keyIds }) => `/dashboard/api-keys/${keyIds[0]}/rename`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/api-keys/{id}/rename': {
    path: async (of) => `/dashboard/api-keys/${(await of.newKey()).id}/rename`,
    form: () => ({ name: 'renamed' }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/api-keys/{id}/revoke': {
    path: ({ keyIds }) => `/dashboard/api-keys/${keyIds[0]}/revoke`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/api-keys/{id}/revoke': {
    path: async (of) => `/dashboard/api-keys/${(await of.newKey()).id}/revoke`,
    own: managersForm,
    foreign: noManagersForm,
  },
} satisfies Record<string, Row>;

const endpoint = {
  url: 'https://hooks.example.com/',
  livemode: 'true',
  types: 'api_key.created',
};

const webhooks = {
  'get /dashboard/webhooks': { own: managersPage },
  'get /dashboard/webhooks/new': { own: managersPage },
  'post /dashboard/webhooks': { form: () => ({ ...endpoint, id: uuid() }), own: managersSecret },
  'get /dashboard/webhooks/{id}': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'get /dashboard/webhooks/{id}/edit': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/edit`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/webhooks/{id}/edit': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/edit`,
    form: () => ({ ...endpoint, isEnabled: 'true' }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/webhooks/{id}/rotate': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/rotate`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/webhooks/{id}/rotate': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/rotate`,
    form: () => ({ graceMinutes: '60' }),
    own: managersSecret,
    foreign: noManagersForm,
  },
  'get /dashboard/webhooks/{id}/delete': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/delete`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/webhooks/{id}/delete': {
    path: async (of) => `/dashboard/webhooks/${await of.newWebhook()}/delete`,
    own: managersForm,
    foreign: noManagersForm,
  },
  'post /dashboard/webhooks/{id}/test': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/test`,
    own: managersForm,
    foreign: noManagersForm,
  },
  'post /dashboard/webhooks/{id}/resend': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/resend`,
    form: () => ({ since: '24' }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/webhooks/{id}/deliveries/{messageId}': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/deliveries/${webhook.messageId}`,
    own: managersPage,
    foreign: noManagersPage,
  },
  'post /dashboard/webhooks/{id}/deliveries/{messageId}/resend': {
    path: ({ webhook }) => `/dashboard/webhooks/${webhook.id}/deliveries/${webhook.messageId}/resend`,
    own: managersForm,
    foreign: noManagersForm,
  },
} satisfies Record<string, Row>;

const members = {
  'get /dashboard/members': { own: page },
  'get /dashboard/search': {
    path: ({ productSlugs }) => `/dashboard/search?q=${productSlugs[0]}`,
    own: page,
    // With a foreign id, nothing is found.
    foreign: page,
  },
  'get /dashboard/members/invite': { own: managersPage },
  'post /dashboard/members/invite': {
    form: () => ({ id: uuid(), email: `guest-${uuid()}@example.com`, role: 'member', days: '7' }),
    own: managersSecret,
  },
  'post /dashboard/members/invitations/{id}/revoke': {
    path: async (of) => `/dashboard/members/invitations/${(await of.newInvitation()).id}/revoke`,
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/members/second-factor': { own: [303, 403, 403, 403, 200] },
  'post /dashboard/members/second-factor': {
    // Leaves the second factor optional, because requiring it would lock out people without a second factor.
    form: () => ({ required: 'no' }),
    own: [401, 403, 403, 403, 303],
  },
  'get /dashboard/members/single-sign-on': { own: [303, 403, 403, 403, 200] },
  'post /dashboard/members/single-sign-on': {
    form: () => ({ required: 'no' }),
    own: [401, 403, 403, 403, 303],
  },
  'get /dashboard/members/{userId}': {
    path: ({ people }) => `/dashboard/members/${people.member.id}`,
    own: page,
    foreign: noPage,
  },
  'post /dashboard/members/{userId}/role': {
    path: async (of) => `/dashboard/members/${(await of.newMember()).id}/role`,
    form: () => ({ role: 'billing' }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/members/{userId}/remove': {
    path: async (of) => `/dashboard/members/${(await of.newMember()).id}/remove`,
    own: managersPage,
    foreign: noPage,
  },
  'post /dashboard/members/{userId}/remove': {
    path: async (of) => `/dashboard/members/${(await of.newMember()).id}/remove`,
    own: managersForm,
    foreign: [401, 404, 404, 404, 404],
  },
  // The link's secret grants access, so anyone who has the link, member or not, may learn which Organization it is for.
  'get /dashboard/join': {
    own: [200, 200, 200, 200, 200],
  },
  'post /dashboard/join/open': {
    form: async (of) => ({ invitation: (await of.newInvitation()).token }),
    own: [303, 303, 303, 303, 303],
  },
  'post /dashboard/join': {
    form: async (of) => ({ invitation: (await of.newInvitation()).token }),
    own: [303, 303, 303, 303, 303],
  },
  'post /dashboard/join/account': {
    form: async (of) => ({
      invitation: (await of.newInvitation()).token,
      name: 'A guest',
      password: 'a long phrase of their own',
    }),
    own: [303, 303, 303, 303, 303],
    endsSession: true,
  },
  'post /dashboard/join/sign-out': { own: [303, 303, 303, 303, 303], endsSession: true },
  'get /dashboard/left': { own: page },
} satisfies Record<string, Row>;

const portfolio = {
  'get /dashboard/portfolio': { own: page },
  'get /dashboard/portfolio/orders': { own: page },
  'get /dashboard/portfolio/orders/{id}': {
    path: ({ position }) => `/dashboard/portfolio/orders/${position.orderId}`,
    own: page,
    foreign: noPage,
  },
  'post /dashboard/portfolio/orders/{id}/cancel': {
    path: async (of) => `/dashboard/portfolio/orders/${await of.newRestingOrder()}/cancel`,
    own: managersForm,
    foreign: noManagersForm,
  },
  'post /dashboard/portfolio/orders/{id}/decrease': {
    path: async (of) => `/dashboard/portfolio/orders/${await of.newRestingOrder()}/decrease`,
    form: () => ({ remainingContracts: '1' }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/portfolio/settlements': { own: page },
  'get /dashboard/portfolio/trades.csv': { own: page },
} satisfies Record<string, Row>;

/** Markets are the same for every Organization. */
const markets = {
  'get /dashboard/markets': { path: () => '/dashboard/markets?station=KMIA', own: page },
  'get /dashboard/markets/{ticker}': {
    path: ({ market }) => `/dashboard/markets/${market.ticker}?side=yes&action=buy&contracts=3`,
    own: page,
  },
  'post /dashboard/markets/{ticker}': {
    path: ({ market }) => `/dashboard/markets/${market.ticker}`,
    form: ({ market: { limit } }) => ({
      id: uuid(),
      side: 'yes',
      action: 'buy',
      contracts: '1',
      limitPrice: limit,
      timeInForce: 'immediate_or_cancel',
    }),
    own: managersForm,
  },
} satisfies Record<string, Row>;

/** Scores are the same for every Organization. */
const scores = {
  'get /dashboard/scores': { path: () => '/dashboard/scores?station=KNYC&lead=24', own: page },
  'get /dashboard/scores/execution': { own: page },
} satisfies Record<string, Row>;

/** Routes for a person's own account. Foreign ids would belong to another person here, not to another Organization. */
const account = {
  'get /': { own: [200, 200, 200, 200, 200] },
  'get /login': { own: [200, 303, 303, 303, 303] },
  'post /login': { form: wrongPassword, own: [401, 401, 401, 401, 401] },
  // The code page opens only after a correct password.
  'get /login/code': { own: [303, 303, 303, 303, 303] },
  'post /login/code': { own: [303, 303, 303, 303, 303] },
  'post /login/code/passkey-options': { own: [303, 303, 303, 303, 303] },
  'post /login/passkey-options': { own: [200, 200, 200, 200, 200] },
  'post /login/passkey': { own: [400, 400, 400, 400, 400] },
  'post /logout': { own: [303, 303, 303, 303, 303], endsSession: true },
  'post /dashboard/organization': {
    form: ({ slug }) => ({ organization: slug }),
    own: [401, 303, 303, 303, 303],
    foreign: [401, 404, 404, 404, 404],
  },
  'get /dashboard/account': { own: page },
  'post /dashboard/account': { form: () => ({ name: 'Another Name' }), own: personsForm },
  'post /dashboard/account/notices': {
    form: ({ slug }) => ({ organization: slug, notices: 'on' }),
    own: [401, 404, 404, 303, 303],
    foreign: [401, 404, 404, 404, 404],
  },
  'get /dashboard/account/password': { own: page },
  'post /dashboard/account/password': {
    form: () => ({ currentPassword: PASSWORD, newPassword: 'one long phrase', newPasswordAgain: 'another' }),
    own: personsMistake,
  },
  'get /dashboard/account/second-factor': { own: page },
  // There is no next step before the set-up has started, and no factor to turn off.
  'get /dashboard/account/second-factor/setup': { own: [303, 303, 303, 303, 303] },
  'post /dashboard/account/second-factor/setup': { own: personsForm },
  'get /dashboard/account/second-factor/recovery-codes': { own: [303, 303, 303, 303, 303] },
  'post /dashboard/account/second-factor/recovery-codes': { own: personsForm },
  'get /dashboard/account/second-factor/off': { own: [303, 303, 303, 303, 303] },
  'post /dashboard/account/second-factor/off': { own: personsForm },
  'post /dashboard/account/second-factor': {
    form: () => ({ currentPassword: PASSWORD }),
    own: personsForm,
  },
  'get /dashboard/account/passkeys': { own: page },
  'post /dashboard/account/passkeys': { form: () => ({ name: 'Laptop' }), own: personsMistake },
  'post /dashboard/account/passkeys/new-options': { own: [401, 200, 200, 200, 200] },
  'post /dashboard/account/passkeys/options': { own: [401, 200, 200, 200, 200] },
  // Another person's passkey id would be just as unknown.
  'post /dashboard/account/passkeys/remove': {
    form: () => ({ id: 'unknown' }),
    own: [401, 404, 404, 404, 404],
  },
  'get /dashboard/account/single-sign-on': { own: page },
  // Allowed only while the issuer is down.
  'post /dashboard/account/single-sign-on/waiver': { own: [401, 403, 403, 403, 403] },
  'get /dashboard/account/sessions': { own: page },
  'post /dashboard/account/sessions/{id}/end': {
    path: async ({ people }, actor) => {
      const { email, browser } = people[actor === 'nobody' ? 'owner' : actor];
      return `/dashboard/account/sessions/${await openSession(browser.url, email)}/end`;
    },
    own: personsForm,
    foreign: [401, 404, 404, 404, 404],
  },
  'post /dashboard/account/sign-out-everywhere': { own: personsForm, endsSession: true },
} satisfies Record<string, Row>;

/** Routes for operators and for people with a one-time link. Other people can tell that these routes exist. */
const operators = {
  'get /confirm': { own: page },
  'post /confirm': { form: () => ({ currentPassword: PASSWORD }), own: personsForm },
  'get /forgot': { own: [200, 200, 200, 200, 200] },
  // If mail is not configured, no link can be requested.
  'post /forgot': { form: () => ({ email: 'a@example.com' }), own: [404, 404, 404, 404, 404] },
  'get /reset': { own: [200, 200, 200, 200, 200] },
  'post /reset': { own: [404, 404, 404, 404, 404] },
  'post /reset/passkey-options': { own: [404, 404, 404, 404, 404] },
  'post /reset/open': { form: () => ({ link: 'x'.repeat(43) }), own: [303, 303, 303, 303, 303] },
  'get /set-up': { own: [200, 200, 200, 200, 200] },
  'post /set-up/person': { own: [404, 404, 404, 404, 404] },
  'post /set-up/open': { form: () => ({ link: 'x'.repeat(43) }), own: [303, 303, 303, 303, 303] },
  'post /set-up/second-factor': { own: operatorsForm },
  'post /set-up/second-factor/confirm': { own: operatorsForm },
  'post /set-up/product': { own: operatorsForm },
  'get /set-up/owner': { own: [303, 403, 403, 403, 403] },
  'post /set-up/owner': { own: operatorsForm },
} satisfies Record<string, Row>;

/** Routes that exist only for operators; test/console/access.embedded.test.ts tests them. */
export const consoleRoutes = [
  'get /console',
  'get /console/new-customer',
  'post /console/new-customer',
  'get /console/customers/{slug}',
  'post /console/customers/{slug}',
  'get /console/customers/{slug}/archive',
  'post /console/customers/{slug}/archive',
  'get /console/customers/{slug}/people',
  'get /console/customers/{slug}/invite',
  'post /console/customers/{slug}/invite',
  'post /console/customers/{slug}/invitations/{id}/revoke',
  'get /console/customers/{slug}/people/{userId}',
  'get /console/customers/{slug}/people/{userId}/role',
  'post /console/customers/{slug}/people/{userId}/role',
  'get /console/customers/{slug}/people/{userId}/remove',
  'post /console/customers/{slug}/people/{userId}/remove',
  'get /console/customers/{slug}/entitlements',
  'get /console/customers/{slug}/entitlement',
  'post /console/customers/{slug}/entitlement',
  'get /console/customers/{slug}/entitlement/withdraw',
  'post /console/customers/{slug}/entitlement/withdraw',
  'get /console/customers/{slug}/keys',
  'get /console/customers/{slug}/keys/{id}/revoke',
  'post /console/customers/{slug}/keys/{id}/revoke',
  'get /console/customers/{slug}/webhooks',
  'get /console/customers/{slug}/webhooks/new',
  'post /console/customers/{slug}/webhooks/new',
  'get /console/customers/{slug}/webhooks/{id}',
  'get /console/customers/{slug}/webhooks/{id}/edit',
  'post /console/customers/{slug}/webhooks/{id}/edit',
  'get /console/customers/{slug}/webhooks/{id}/delete',
  'post /console/customers/{slug}/webhooks/{id}/delete',
  'get /console/customers/{slug}/credits',
  'get /console/customers/{slug}/credits/grant',
  'post /console/customers/{slug}/credits/grant',
  'get /console/customers/{slug}/credits/void',
  'post /console/customers/{slug}/credits/void',
  'get /console/customers/{slug}/credits/forgive',
  'post /console/customers/{slug}/credits/forgive',
  'get /console/customers/{slug}/usage',
  'get /console/customers/{slug}/usage/corrections',
  'post /console/customers/{slug}/usage/corrections',
  'get /console/customers/{slug}/trading',
  'get /console/customers/{slug}/trading/limits',
  'post /console/customers/{slug}/trading/limits',
  'get /console/customers/{slug}/trading/limits/withdraw',
  'post /console/customers/{slug}/trading/limits/withdraw',
  'get /console/customers/{slug}/trading/switch',
  'post /console/customers/{slug}/trading/switch',
  'get /console/customers/{slug}/audit-log',
  'get /console/products',
  'get /console/new-product',
  'post /console/new-product',
  'get /console/products/{slug}',
  'post /console/products/{slug}',
  'get /console/products/{slug}/price',
  'post /console/products/{slug}/price',
  'get /console/products/{slug}/archive',
  'post /console/products/{slug}/archive',
  'get /console/plans',
  'get /console/new-plan',
  'post /console/new-plan',
  'get /console/plans/{slug}',
  'post /console/plans/{slug}',
  'get /console/plans/{slug}/move',
  'post /console/plans/{slug}/move',
  'get /console/customers/{slug}/plan',
  'post /console/customers/{slug}/plan',
  'get /console/customers/{slug}/plan/end',
  'post /console/customers/{slug}/plan/end',
  'get /console/usage',
  'get /console/usage.csv',
  'get /console/search',
  'get /console/operators',
  'get /console/shards',
  'get /console/operators/invite',
  'post /console/operators/invite',
  'get /console/operators/{userId}/remove',
  'post /console/operators/{userId}/remove',
  'get /console/people',
  'get /console/people/{userId}',
  'post /console/people/{userId}',
  'get /console/people/{userId}/sign-out',
  'post /console/people/{userId}/sign-out',
  'get /console/people/{userId}/second-factor',
  'post /console/people/{userId}/second-factor',
  'get /console/people/{userId}/single-sign-on',
  'post /console/people/{userId}/single-sign-on',
  'get /console/people/{userId}/delete',
  'post /console/people/{userId}/delete',
  'get /console/trading',
  'get /console/trading/switch',
  'post /console/trading/switch',
  'get /console/trading/reconciliation',
  'post /console/trading/reconciliation',
  'get /console/people/{userId}/link',
  'post /console/people/{userId}/link',
  'get /console/audit-log',
] as const;

/** Maps each route of the operator API to the console route that does the same. */
export const consoleOf: Record<string, (typeof consoleRoutes)[number]> = {
  listOrganizations: 'get /console',
  getOrganization: 'get /console/customers/{slug}',
  putOrganization: 'post /console/customers/{slug}',
  listMembers: 'get /console/customers/{slug}/people',
  getMember: 'get /console/customers/{slug}/people/{userId}',
  putMember: 'post /console/customers/{slug}/people/{userId}/role',
  deleteMember: 'post /console/customers/{slug}/people/{userId}/remove',
  listGrants: 'get /console/customers/{slug}/entitlements',
  getGrant: 'get /console/customers/{slug}/entitlement',
  putGrant: 'post /console/customers/{slug}/entitlement',
  deleteGrant: 'post /console/customers/{slug}/entitlement/withdraw',
  listProducts: 'get /console/products',
  getProduct: 'get /console/products/{slug}',
  putProduct: 'post /console/products/{slug}',
  listPlans: 'get /console/plans',
  getPlan: 'get /console/plans/{slug}',
  putPlan: 'post /console/plans/{slug}',
  movePlan: 'post /console/plans/{slug}/move',
  listPlanOrganizations: 'get /console/plans/{slug}',
  getOrganizationPlan: 'get /console/customers/{slug}/plan',
  putOrganizationPlan: 'post /console/customers/{slug}/plan',
  deleteOrganizationPlan: 'post /console/customers/{slug}/plan/end',
  listUsers: 'get /console/people',
  getUser: 'get /console/people/{userId}',
  // In the console, people choose their own password through a link.
  putUser: 'post /console/people/{userId}',
  deleteUser: 'post /console/people/{userId}/delete',
  deleteUserSessions: 'post /console/people/{userId}/sign-out',
  deleteUserSecondFactor: 'post /console/people/{userId}/second-factor',
  deleteUserSingleSignOn: 'post /console/people/{userId}/single-sign-on',
  readCustomerCredits: 'get /console/customers/{slug}/credits',
  listCustomerCreditEntries: 'get /console/customers/{slug}/credits',
  putCreditGrant: 'post /console/customers/{slug}/credits/grant',
  voidCreditGrant: 'post /console/customers/{slug}/credits/void',
  forgiveOverdraft: 'post /console/customers/{slug}/credits/forgive',
  listCustomerUsage: 'get /console/usage',
  correctCustomerUsage: 'post /console/customers/{slug}/usage/corrections',
  // Files are sent by a command, which the page shows.
  recordCustomerUsageEvents: 'get /console/customers/{slug}/usage',
  listOrganizationWebhooks: 'get /console/customers/{slug}/webhooks',
  createOrganizationWebhook: 'post /console/customers/{slug}/webhooks/new',
  putOrganizationWebhook: 'post /console/customers/{slug}/webhooks/{id}/edit',
  deleteOrganizationWebhook: 'post /console/customers/{slug}/webhooks/{id}/delete',
  getTradingLimits: 'get /console/customers/{slug}/trading',
  putTradingLimits: 'post /console/customers/{slug}/trading/limits',
  deleteTradingLimits: 'post /console/customers/{slug}/trading/limits/withdraw',
  getTradingSwitch: 'get /console/customers/{slug}/trading',
  putTradingSwitch: 'post /console/customers/{slug}/trading/switch',
  getServiceTradingSwitch: 'get /console/trading',
  putServiceTradingSwitch: 'post /console/trading/switch',
  getReconciliation: 'get /console/trading',
  acceptReconciliation: 'post /console/trading/reconciliation',
  listOperatorLog: 'get /console/audit-log',
  listAuditLog: 'get /console/customers/{slug}/audit-log',
};

const operatorsConsole = Object.fromEntries(
  consoleRoutes.map((route): [string, Row] => [
    route,
    { own: route.startsWith('get ') ? noPage : [401, 404, 404, 404, 404], forOperators: true },
  ]),
);

/**
 * Every page and form of the dashboard, and who may open or submit it. `303` means a form that took effect or a
 * redirect to the sign-in page. A route that is missing here fails the test.
 */
export const matrix: Record<string, Row> = {
  'get /dashboard/assets/{version}/{file}': {
    path: () => '/dashboard/assets/any/gauge.css',
    own: [200, 200, 200, 200, 200],
  },
  ...usages,
  ...keys,
  ...webhooks,
  ...members,
  ...portfolio,
  ...markets,
  ...scores,
  ...account,
  ...operators,
  ...operatorsConsole,
  ...risk,
};

let counter = 0;
/** Uses a new account each time, because failed sign-ins to the same account are slowed down. */
function wrongPassword() {
  return { email: `nobody-${++counter}@example.com`, password: 'wrong' };
}

/** Opens another session of a person and returns its id. */
async function openSession(url: string, email: string): Promise<string> {
  const browser = new Browser(url);
  await browser.signIn(email);
  const { text } = await browser.get('/dashboard/account/sessions', { accept: 'text/html' });
  // The current session has a `Sign out` button instead of `End`.
  const form = text
    .split('<form')
    .find((part) => /<button[^>]*>\s*Sign out\s*<\/button>/.test(part) && part.includes('/end"'));
  return /sessions\/([\da-f-]{36})\/end/.exec(form ?? '')![1]!;
}
