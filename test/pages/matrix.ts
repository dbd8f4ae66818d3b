import { v7 as uuid } from 'uuid';
import { newFormId } from '../../src/core/ids.js';
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

export type Ids = (of: Populated) => Record<string, unknown> | Promise<Record<string, unknown>>;

/** A row that names the ids in its address instead of writing the path, and then needs no usual `foreign` status. */
type Rows = Record<string, Row & { ids?: Ids }>;

const forAll: Statuses = [200, 200, 200, 200, 200];
const redirectsAll: Statuses = [303, 303, 303, 303, 303];
/** A page for every signed-in person; others are redirected to the sign-in page. */
const page: Statuses = [303, 200, 200, 200, 200];
/** A page for roles that may change things. */
const managersPage: Statuses = [303, 403, 403, 200, 200];
/** A form for roles that may change things; redirects to another page. */
const managersForm: Statuses = [401, 403, 403, 303, 303];
/** A form that responds with a page, because the page shows a secret. */
const managersSecret: Statuses = [401, 403, 403, 201, 201];
/** A form for every role except members. */
const alertForm: Statuses = [401, 403, 303, 303, 303];
const noAlertForm: Statuses = [401, 403, 404, 404, 404];
const ownersPage: Statuses = [303, 403, 403, 403, 200];
const ownersForm: Statuses = [401, 403, 403, 403, 303];
/** A form about the person's own account. */
const personsForm: Statuses = [401, 303, 303, 303, 303];
const personsMistake: Statuses = [401, 400, 400, 400, 400];
const operatorsForm: Statuses = [401, 403, 403, 403, 403];
/** A route that does not exist for any signed-in person. */
const noPage: Statuses = [303, 404, 404, 404, 404];
const noManagersPage: Statuses = [303, 403, 403, 404, 404];
const noManagersForm: Statuses = [401, 403, 403, 404, 404];
const noForm: Statuses = [401, 404, 404, 404, 404];
/** The answers to another Organization's ids, if the row does not say so. */
const elsewhere = new Map([
  [page, noPage],
  [managersPage, noManagersPage],
  [managersForm, noManagersForm],
  [managersSecret, noManagersForm],
  [alertForm, noAlertForm],
]);

const usages = {
  'get /dashboard': { own: page },
  'get /dashboard/usage': {
    path: ({ productSlugs, keyIds }) => `/dashboard/usage?product=${productSlugs[0]}&key=${keyIds[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/alerts': { own: page },
  'post /dashboard/usage/alerts': { form: () => ({ cap: '', level: String(++counter) }), own: alertForm },
  'post /dashboard/usage/alerts/{id}/remove': {
    ids: async (of) => ({ id: await of.newAlert() }),
    own: alertForm,
  },
  'get /dashboard/usage.csv': {
    path: ({ productSlugs }) => `/dashboard/usage.csv?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'get /dashboard/usage/events.csv': {
    path: ({ productSlugs }) => `/dashboard/usage/events.csv?product=${productSlugs[0]}`,
    own: page,
    foreign: noPage,
  },
  'post /dashboard/usage': {
    path: ({ eventKeys }) => toAddress('/dashboard/usage', { event: eventKeys[0] }),
    form: () => ({
      quantity: '1',
      reason: 'Counted twice',
      correctionKey: uuid(),
      step: 'save',
    }),
    own: managersForm,
    foreign: noManagersForm,
  },
  'get /dashboard/entitlements': { own: page },
  'get /dashboard/credits': { own: page },
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
  'get /dashboard/statement': { own: page },
  'get /dashboard/statement.csv': { own: page },
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
} satisfies Rows;

const risk = {
  'get /dashboard/portfolio/risk': { own: page },
  'get /dashboard/portfolio/risk/switch': {
    path: () => '/dashboard/portfolio/risk/switch?state=halt',
    own: managersPage,
  },
  'post /dashboard/portfolio/risk/switch': {
    // Leaves trading open, because closing it would cause the orders of other rows to be refused.
    form: () => ({ state: 'open', reason: uuid() }),
    own: managersForm,
  },
} satisfies Rows;

const firstKey: Ids = ({ keyIds }) => ({ id: keyIds[0]! });
const newKey: Ids = (of) => of.newKey();

const keys = {
  'get /dashboard/api-keys': { own: page },
  'get /dashboard/api-keys/new': {
    path: ({ keyIds }) => `/dashboard/api-keys/new?like=${keyIds[0]}`,
    own: managersPage,
    // With a foreign id, the form is empty.
    foreign: managersPage,
  },
  'post /dashboard/api-keys': {
    form: ({ now }) => ({
      id: newFormId(now()),
      name: 'made by a form',
      livemode: 'false',
      scopes: 'usage:write',
    }),
    own: managersSecret,
  },
  'get /dashboard/api-keys/{id}': { ids: firstKey, own: page },
  'get /dashboard/api-keys/{id}/cut-over': { ids: ({ rotated }) => ({ id: rotated.newKeyId }), own: page },
  'get /dashboard/api-keys/{id}/rotate': { ids: firstKey, own: managersPage },
  'post /dashboard/api-keys/{id}/rotate': {
    ids: newKey,
    form: () => ({ grace: '60' }),
    own: managersSecret,
  },
  'get /dashboard/api-keys/{id}/rename': { ids: firstKey, own: managersPage },
  'post /dashboard/api-keys/{id}/rename': {
    ids: newKey,
    form: () => ({ name: 'renamed' }),
    own: managersForm,
  },
  'get /dashboard/api-keys/{id}/revoke': { ids: firstKey, own: managersPage },
  'post /dashboard/api-keys/{id}/revoke': { ids: newKey, own: managersForm },
} satisfies Rows;

const endpoint = {
  url: 'https://hooks.example.com/',
  livemode: 'true',
  types: 'api_key.created',
};
const itsIds: Ids = ({ webhook }) => webhook;

const webhooks = {
  'get /dashboard/webhooks': { own: managersPage },
  'get /dashboard/webhooks/new': { own: managersPage },
  'post /dashboard/webhooks': {
    form: ({ now }) => ({ ...endpoint, id: newFormId(now()) }),
    own: managersSecret,
  },
  'get /dashboard/webhooks/{id}': { ids: itsIds, own: managersPage },
  'get /dashboard/webhooks/{id}/edit': { ids: itsIds, own: managersPage },
  'post /dashboard/webhooks/{id}/edit': {
    ids: itsIds,
    form: () => ({ ...endpoint, isEnabled: 'true' }),
    own: managersForm,
  },
  'get /dashboard/webhooks/{id}/rotate': { ids: itsIds, own: managersPage },
  'post /dashboard/webhooks/{id}/rotate': {
    ids: itsIds,
    form: () => ({ graceMinutes: '60' }),
    own: managersSecret,
  },
  'get /dashboard/webhooks/{id}/delete': { ids: itsIds, own: managersPage },
  'post /dashboard/webhooks/{id}/delete': {
    ids: async (of) => ({ id: await of.newWebhook() }),
    own: managersForm,
  },
  'post /dashboard/webhooks/{id}/test': { ids: itsIds, own: managersForm },
  'post /dashboard/webhooks/{id}/resend': {
    ids: itsIds,
    form: () => ({ since: '24' }),
    own: managersForm,
  },
  'get /dashboard/webhooks/{id}/deliveries/{messageId}': { ids: itsIds, own: managersPage },
  'post /dashboard/webhooks/{id}/deliveries/{messageId}/resend': { ids: itsIds, own: managersForm },
} satisfies Rows;

const newMember: Ids = async (of) => ({ userId: (await of.newMember()).id });

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
    form: ({ now }) => ({
      id: newFormId(now()),
      email: `guest-${uuid()}@example.com`,
      role: 'member',
      days: '7',
    }),
    own: managersSecret,
  },
  'post /dashboard/members/invitations/{id}/revoke': { ids: (of) => of.newInvitation(), own: managersForm },
  'get /dashboard/members/second-factor': { own: ownersPage },
  'post /dashboard/members/second-factor': {
    // Leaves the second factor optional, because requiring it would lock out people without a second factor.
    form: () => ({ required: 'no' }),
    own: ownersForm,
  },
  'get /dashboard/members/single-sign-on': { own: ownersPage },
  'post /dashboard/members/single-sign-on': { form: () => ({ required: 'no' }), own: ownersForm },
  'get /dashboard/members/{userId}': { ids: ({ people }) => ({ userId: people.member.id }), own: page },
  'post /dashboard/members/{userId}/role': {
    ids: newMember,
    form: () => ({ role: 'billing' }),
    own: managersForm,
  },
  'get /dashboard/members/{userId}/remove': { ids: newMember, own: managersPage, foreign: noPage },
  'post /dashboard/members/{userId}/remove': { ids: newMember, own: managersForm, foreign: noForm },
  // The link's secret grants access, so anyone who has the link, member or not, may learn which Organization it is for.
  'get /dashboard/join': { own: forAll },
  'post /dashboard/join/open': {
    form: async (of) => ({ invitation: (await of.newInvitation()).token }),
    own: redirectsAll,
  },
  'post /dashboard/join': {
    form: async (of) => ({ invitation: (await of.newInvitation()).token }),
    own: redirectsAll,
  },
  'post /dashboard/join/account': {
    form: async (of) => ({
      invitation: (await of.newInvitation()).token,
      name: 'A guest',
      password: 'a long phrase of their own',
    }),
    own: redirectsAll,
    endsSession: true,
  },
  'post /dashboard/join/sign-out': { own: redirectsAll, endsSession: true },
  'get /dashboard/left': { own: page },
} satisfies Rows;

const newRestingOrder: Ids = async (of) => ({ id: await of.newRestingOrder() });

const portfolio = {
  'get /dashboard/portfolio': { own: page },
  'get /dashboard/portfolio/orders': { own: page },
  'get /dashboard/portfolio/orders/{id}': { ids: ({ position }) => ({ id: position.orderId }), own: page },
  'post /dashboard/portfolio/orders/{id}/cancel': { ids: newRestingOrder, own: managersForm },
  'post /dashboard/portfolio/orders/{id}/decrease': {
    ids: newRestingOrder,
    form: () => ({ remainingContracts: '1' }),
    own: managersForm,
  },
  'post /dashboard/portfolio/orders/cancel': {
    form: async (of) => ({ ids: await of.newRestingOrder() }),
    own: [401, 403, 403, 200, 200],
    foreign: noManagersForm,
  },
  'get /dashboard/portfolio/settlements': { own: page },
  'get /dashboard/portfolio/trades.csv': { own: page },
} satisfies Rows;

/** Markets are the same for every Organization. */
const markets = {
  'get /dashboard/markets': { path: () => '/dashboard/markets?station=KMIA', own: page },
  'get /dashboard/markets/{ticker}': {
    path: ({ market }) => `/dashboard/markets/${market.ticker}?side=yes&action=buy&contracts=3`,
    own: page,
  },
  'post /dashboard/markets/watched': {
    form: () => ({ station: 'KMIA', watch: 'yes' }),
    own: [401, 303, 303, 303, 303],
  },
  'post /dashboard/markets/{ticker}': {
    path: ({ market }) => `/dashboard/markets/${market.ticker}`,
    form: ({ market: { limit }, now }) => ({
      id: newFormId(now()),
      side: 'yes',
      action: 'buy',
      contracts: '1',
      limitPrice: limit,
      timeInForce: 'immediate_or_cancel',
    }),
    own: managersForm,
  },
} satisfies Rows;

/** Scores are the same for every Organization. */
const scores = {
  'get /dashboard/scores': { path: () => '/dashboard/scores?station=KNYC&lead=24', own: page },
  'get /dashboard/scores/execution': { own: page },
} satisfies Rows;

/** Routes for a person's own account. Foreign ids would belong to another person here, not to another Organization. */
const account = {
  'get /': { own: forAll },
  'get /login': { own: [200, 303, 303, 303, 303] },
  'post /login': { form: wrongPassword, own: [401, 401, 401, 401, 401] },
  // The code page opens only after a correct password.
  'get /login/code': { own: redirectsAll },
  'post /login/code': { own: redirectsAll },
  'post /login/code/passkey-options': { own: redirectsAll },
  'post /login/passkey-options': { own: forAll },
  'post /login/passkey': { own: [400, 400, 400, 400, 400] },
  'post /logout': { own: redirectsAll, endsSession: true },
  'post /dashboard/organization': {
    form: ({ slug }) => ({ organization: slug }),
    own: [401, 303, 303, 303, 303],
    foreign: noForm,
  },
  'get /dashboard/account': { own: page },
  'post /dashboard/account': { form: () => ({ name: 'Another Name' }), own: personsForm },
  'post /dashboard/account/notices': {
    form: ({ slug }) => ({ organization: slug, notices: 'off' }),
    own: [401, 404, 303, 303, 303],
    foreign: noForm,
  },
  'get /dashboard/account/password': { own: page },
  'post /dashboard/account/password': {
    form: () => ({ currentPassword: PASSWORD, newPassword: 'one long phrase', newPasswordAgain: 'another' }),
    own: personsMistake,
  },
  'get /dashboard/account/second-factor': { own: page },
  // There is no next step before the set-up has started, and no factor to turn off.
  'get /dashboard/account/second-factor/setup': { own: redirectsAll },
  'post /dashboard/account/second-factor/setup': { own: personsForm },
  'get /dashboard/account/second-factor/recovery-codes': { own: redirectsAll },
  'post /dashboard/account/second-factor/recovery-codes': { own: personsForm },
  'get /dashboard/account/second-factor/off': { own: redirectsAll },
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
    own: noForm,
  },
  'get /dashboard/account/single-sign-on': { own: [303, 303, 303, 303, 303] },
  // Allowed only while the issuer is down.
  'post /dashboard/account/single-sign-on/waiver': { own: [401, 403, 403, 403, 403] },
  'get /dashboard/account/sessions': { own: page },
  'post /dashboard/account/sessions/{id}/end': {
    path: async ({ people }, actor) => {
      const { email, browser } = people[actor === 'nobody' ? 'owner' : actor];
      return `/dashboard/account/sessions/${await openSession(browser.url, email)}/end`;
    },
    own: personsForm,
    foreign: noForm,
  },
  'post /dashboard/account/sign-out-everywhere': { own: personsForm, endsSession: true },
} satisfies Rows;

/** Routes for operators and for people with a one-time link. Other people can tell that these routes exist. */
const operators = {
  'get /confirm': { own: page },
  'post /confirm': { form: () => ({ currentPassword: PASSWORD }), own: personsForm },
  'get /forgot': { own: forAll },
  // If mail is not configured, no link can be requested.
  'post /forgot': { form: () => ({ email: 'a@example.com' }), own: [404, 404, 404, 404, 404] },
  'get /reset': { own: forAll },
  'post /reset': { own: [404, 404, 404, 404, 404] },
  'post /reset/passkey-options': { own: [404, 404, 404, 404, 404] },
  'post /reset/open': { form: () => ({ link: 'x'.repeat(43) }), own: redirectsAll },
  'get /set-up': { own: forAll },
  'post /set-up/person': { own: [404, 404, 404, 404, 404] },
  'post /set-up/open': { form: () => ({ link: 'x'.repeat(43) }), own: redirectsAll },
  'post /set-up/second-factor': { own: operatorsForm },
  'post /set-up/second-factor/confirm': { own: operatorsForm },
  'post /set-up/product': { own: operatorsForm },
  'get /set-up/owner': { own: [303, 403, 403, 403, 403] },
  'post /set-up/owner': { own: operatorsForm },
} satisfies Rows;

const consoleForms = [
  '/console/new-customer',
  '/console/customers/{slug}/settings',
  '/console/customers/{slug}/archive',
  '/console/customers/{slug}/invite',
  '/console/customers/{slug}/people/{userId}/role',
  '/console/customers/{slug}/people/{userId}/remove',
  '/console/customers/{slug}/entitlement',
  '/console/customers/{slug}/entitlement/withdraw',
  '/console/customers/{slug}/keys/{id}/revoke',
  '/console/customers/{slug}/portal',
  '/console/customers/{slug}/webhooks/new',
  '/console/customers/{slug}/webhooks/{id}/edit',
  '/console/customers/{slug}/webhooks/{id}/delete',
  '/console/customers/{slug}/credits/grant',
  '/console/customers/{slug}/credits/void',
  '/console/customers/{slug}/credits/forgive',
  '/console/customers/{slug}/trading/limits',
  '/console/customers/{slug}/trading/limits/withdraw',
  '/console/customers/{slug}/trading/switch',
  '/console/new-product',
  '/console/products/{slug}',
  '/console/products/{slug}/price',
  '/console/products/{slug}/archive',
  '/console/new-plan',
  '/console/plans/{slug}',
  '/console/customers/{slug}/plan',
  '/console/service-keys/new',
  '/console/service-keys/{id}/rotate',
  '/console/service-keys/{id}/revoke',
  '/console/operators/invite',
  '/console/operators/{userId}/remove',
  '/console/people/{userId}',
  '/console/people/{userId}/sign-out',
  '/console/people/{userId}/second-factor',
  '/console/people/{userId}/single-sign-on',
  '/console/people/{userId}/delete',
  '/console/trading/switch',
  '/console/trading/reconciliation',
  '/console/people/{userId}/link',
] as const;
const consolePages = [
  '/console',
  '/console/customers.csv',
  '/console/customers/{slug}',
  '/console/customers/{slug}/people',
  '/console/customers/{slug}/people/{userId}',
  '/console/customers/{slug}/entitlements',
  '/console/customers/{slug}/keys',
  '/console/customers/{slug}/webhooks',
  '/console/customers/{slug}/webhooks/{id}',
  '/console/customers/{slug}/credits',
  '/console/customers/{slug}/credits.csv',
  '/console/customers/{slug}/usage',
  '/console/customers/{slug}/usage.csv',
  '/console/customers/{slug}/trading',
  '/console/customers/{slug}/audit-log',
  '/console/products',
  '/console/usage',
  '/console/usage.csv',
  '/console/search',
  '/console/plans',
  '/console/service-keys',
  '/console/service-keys/{id}',
  '/console/operators',
  '/console/shards',
  '/console/people',
  '/console/trading',
  '/console/audit-log',
  '/console/audit-log/customers',
] as const;

/** Routes that exist only for operators; test/console/access.embedded.test.ts tests them. */
export const consoleRoutes = [
  ...consoleForms.flatMap((path) => [`get ${path}`, `post ${path}`] as const),
  ...consolePages.map((path) => `get ${path}` as const),
  'post /console/customers/{slug}/usage',
  'post /console/customers/{slug}/invitations/{id}/revoke',
  'post /console/customers/{slug}/webhooks/{id}/test',
  'post /console/customers/{slug}/portal/end',
  'post /console/plans/{slug}/move',
  'post /console/customers/{slug}/view',
] as const;

/** True if the route requires a fresh password and code. */
export const isDangerous = (route: string) =>
  route === 'post /console/customers/{slug}/usage' ||
  /\/(archive|price|grant|void|forgive|invite|role|remove|link|sign-out|second-factor|delete|reconciliation|entitlement\/withdraw|webhooks\/new|edit|single-sign-on|service-keys\/new|service-keys\/\{id\}\/\w+)$/.test(
    route,
  );

/** Maps each route of the operator API to the console route that does the same. */
export const consoleOf: Record<string, (typeof consoleRoutes)[number]> = {
  listServiceKeys: 'get /console/service-keys',
  createCustomerPortalSession: 'post /console/customers/{slug}/portal',
  endCustomerPortalSessions: 'post /console/customers/{slug}/portal/end',
  createServiceKey: 'post /console/service-keys/new',
  rotateServiceKey: 'post /console/service-keys/{id}/rotate',
  revokeServiceKey: 'post /console/service-keys/{id}/revoke',
  listOrganizations: 'get /console',
  getOrganization: 'get /console/customers/{slug}',
  putOrganization: 'post /console/customers/{slug}/settings',
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
  deleteOrganizationPlan: 'post /console/customers/{slug}/plan',
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
  correctCustomerUsage: 'post /console/customers/{slug}/usage',
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
    { own: route.startsWith('get ') ? noPage : noForm, forOperators: true },
  ]),
);

/**
 * Every page and form of the dashboard, and who may open or submit it. `303` means a form that took effect or a
 * redirect to the sign-in page. A route that is missing here fails the test.
 */
const rows: Rows = {
  'get /dashboard/assets/{version}/{file}': {
    path: () => '/dashboard/assets/any/gauge.css',
    own: forAll,
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

export const matrix: Record<string, Row> = Object.fromEntries(
  Object.entries(rows).map(([address, { ids, ...row }]) => [
    address,
    ids
      ? { foreign: elsewhere.get(row.own)!, ...row, path: async (of) => fill(address, await ids(of)) }
      : row,
  ]),
);

const fill = (address: string, ids: Record<string, unknown>) =>
  address.split(' ')[1]!.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(ids[name]));

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
    .find((part) => /<button[^>]*>\s*Sign out\b/.test(part) && part.includes('/end"'));
  return /sessions\/([\da-f-]{36})\/end/.exec(form ?? '')![1]!;
}
