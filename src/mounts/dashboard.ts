import type { RequestHandler, Router } from 'express';
import { createRouter } from '../core/http/router.js';
import { keyChangeRoutes } from '../accounts/api-keys/key-change-routes.js';
import { apiKeyPages } from '../accounts/api-keys/pages.js';
import { apiKeyReadRoutes } from '../accounts/api-keys/routes.js';
import { consoleAuditPages } from '../console/audit-pages.js';
import { customerKeyPages } from '../console/key-pages.js';
import { customerPortalPages } from '../console/portal-pages.js';
import { customerPages } from '../console/customer-pages.js';
import { operatorPages } from '../console/operator-pages.js';
import { serviceKeyPages } from '../console/service-key-pages.js';
import type { ConsoleDeps } from '../console/page.js';
import { consoleSearchPages } from '../console/search-pages.js';
import { personPages } from '../console/person-pages.js';
import { customerPeoplePages } from '../console/people-pages.js';
import { customerWebhookPages } from '../console/webhook-pages.js';
import { listPlacements, sumByServer, type Placement } from '../core/db/placement.js';
import { nothingHere } from '../core/http/problem.js';
import { accountWording } from '../accounts/audit/account-wording.js';
import { joinWordings, type Wording } from '../accounts/audit/wording.js';
import { createConsoleFrame } from '../dashboard/frame.js';
import { leadToConfirmation, requireOperatorPerson } from '../accounts/identity/session/operator.js';
import { pageHeaders } from '../core/http/headers.js';
import { perKeyLimit } from '../core/http/rate-limit.js';
import { pageAssets, pageFrame, renderPage, type ReadFrame, pageRouter } from '../core/pages/layout.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditPages } from '../dashboard/audit-log/pages.js';
import type { ListDemoLogins } from '../accounts/identity/sign-in/demo-logins.js';
import { frontPages, hideArchived } from '../dashboard/front-pages.js';
import { overviewPages } from '../dashboard/overview/pages.js';
import { searchPages } from '../dashboard/search/pages.js';
import { findGroupsAway } from '../health/database.js';
import { accountPages, confirmPages } from '../accounts/identity/account/pages.js';
import { resetPages } from '../accounts/identity/account/reset-pages.js';
import { joinPages, type JoinLimits } from '../accounts/identity/members/join-pages.js';
import { membersPages } from '../accounts/identity/members/pages.js';
import { sessionRoutes } from '../accounts/identity/organizations/routes.js';
import { checkPasskeyHost } from '../accounts/identity/second-factor/passkeys.js';
import { createSecretBox } from '../core/secret-box.js';
import { hashToken, readToken, sessionCookie } from '../accounts/identity/session/session-cookie.js';
import {
  createSessionReader,
  personOf,
  refuseCrossSite,
  requireOrganization,
  requireOwnFactor,
  requireOwnSingleSignOn,
  requirePerson,
} from '../accounts/identity/session/session.js';
import { roleChanges } from '../accounts/identity/single-sign-on/roles.js';
import { createIssuer } from '../accounts/identity/single-sign-on/issuer.js';
import { singleSignOnPages } from '../accounts/identity/single-sign-on/pages.js';
import { signInPages } from '../accounts/identity/sign-in/pages.js';
import {
  createDevices,
  defaultSignInLimits,
  limitConfirmations,
  limitFactor,
  limitSignIns,
  type SignInLimits,
} from '../accounts/identity/sign-in/sign-in-limits.js';
import { setUpPages } from '../set-up/pages.js';
import type { Context } from '../core/http/context.js';
import { products as everyProduct, webhookTypes, type Running } from '../products.js';
import { deliveryRoutes } from '../accounts/webhooks/delivery-routes.js';
import { webhookPages } from '../accounts/webhooks/pages.js';
import { createWebhookSchemas } from '../accounts/webhooks/schema.js';
import { webhookRoutes } from '../accounts/webhooks/routes.js';

export interface DashboardOptions {
  signInLimits?: Partial<SignInLimits>;
  joinLimits?: Partial<JoinLimits>;
  listDemoLogins?: ListDemoLogins;
}

export function dashboardRoutes(
  context: Context,
  { products, services }: Running,
  keys: readonly string[],
  readFrame: ReadFrame,
  options: DashboardOptions = {},
): Router {
  const wording = joinWordings([accountWording, ...everyProduct.map(({ auditWording }) => auditWording)]);
  const webhookSchemas = createWebhookSchemas(webhookTypes);
  const endpointRoutes = [...webhookRoutes(webhookSchemas), ...deliveryRoutes(webhookSchemas)];
  const readSession = createSessionReader(context);
  const { signIn, account, issuer } = createProofs(context, keys, options.signInLimits);
  const router = createRouter();
  router.use(pageRouter().get('/dashboard/assets/:version/:file', pageAssets.serve));
  const before = [
    pageFrame(readFrame),
    pageHeaders(),
    sessionCookie(keys),
    refuseCrossSite,
    checkPasskeyHost,
  ];
  const { listDemoLogins = () => [] } = options;
  const introductions = products.map(({ introduction }) => introduction);
  router.use(frontPages(context, readSession, before, listDemoLogins, introductions));
  const pages = ['/login', '/logout', '/confirm', '/reset', '/forgot', '/set-up', '/dashboard', '/console'];
  router.use(pages, before);
  router.use(['/dashboard', '/confirm', '/set-up', '/console'], sessionLimit(context));
  router.use(signInPages(context, readSession, { ...signIn, listDemoLogins }));
  router.use(joinPages(context, readSession, options.joinLimits));
  router.use(
    confirmPages(account, readSession, listDemoLogins),
    resetPages(account),
    setUpPages({ ...account, steps: present(products.map((product) => product.setUpStep)) }, readSession),
  );
  router.use(
    '/dashboard',
    requirePerson(readSession),
    accountPages(account, issuer),
    requireOrganization,
    mountRoutes(createRouter(), '/dashboard', sessionRoutes, context),
    hideArchived(context),
    requireOwnSingleSignOn,
    requireOwnFactor,
    apiKeyPages({ ...context, ...services }),
    mountRoutes(createRouter(), '/dashboard', [...apiKeyReadRoutes, ...keyChangeRoutes], context),
    webhookPages(context, webhookTypes),
    mountRoutes(createRouter(), '/dashboard', endpointRoutes, context),
    auditPages({ ...context, wording }),
    ...products.flatMap((product) => product.pages),
    membersPages(context),
    searchPages({
      ...context,
      sections: products.flatMap((product) => product.sections),
      finders: present(products.map((product) => product.findForMember)),
    }),
    overviewPages({
      ...context,
      wording,
      readPanels: present(products.map((product) => product.readOverviewPanel)),
    }),
  );
  router.use('/console', requirePerson(readSession), consolePages(context, products, wording));
  router.use(leadToConfirmation(readSession));
  return router;
}

function consolePages(context: Context, products: Running['products'], wording: Wording): RequestHandler[] {
  const deps = {
    ...context,
    tabs: products.flatMap((product) => product.customerTabs),
    summaries: present(products.map((product) => product.customerSummary)),
  };
  const sections = products.flatMap((product) => product.consoleSections);
  return [
    operatorsOnly,
    requireOperatorPerson,
    pageFrame(createConsoleFrame(context, sections)),
    customerPages({ ...deps, wording }),
    customerPeoplePages(deps),
    customerKeyPages(deps),
    customerPortalPages(deps),
    customerWebhookPages(deps, webhookTypes),
    ...products.flatMap((product) => product.consolePages(deps)),
    consoleSearchPages({
      ...deps,
      sections,
      finders: present(products.map((product) => product.findForOperator)),
    }),
    serviceKeyPages(deps),
    operatorPages(deps),
    personPages(deps),
    consoleAuditPages({ ...deps, wording, sections }),
    shardPages(deps),
  ];
}

function createProofs(
  context: Context,
  keys: readonly string[],
  signInLimits: DashboardOptions['signInLimits'],
) {
  const secrets = createSecretBox(context.config.secretKeys);
  const limits = { ...defaultSignInLimits, ...signInLimits };
  const devices = createDevices(keys);
  const limiters = limitSignIns(context.limitStores, limits);
  const { singleSignOn } = context.config;
  const issuer = singleSignOn && createIssuer(singleSignOn, context);
  void issuer?.check();
  const ssoPages = issuer && {
    name: issuer.config.name,
    pages: singleSignOnPages(context, issuer, devices),
  };
  return {
    issuer,
    signIn: { limiters, secrets, devices, roleChanges, singleSignOn: ssoPages },
    account: {
      ...context,
      secrets,
      limits: limitConfirmations(context.limitStores, limits),
      limitFactor: limitFactor(limiters, devices),
    },
  };
}

function shardPages(deps: ConsoleDeps): Router {
  const { db } = deps;
  const router = pageRouter();
  router.get('/shards', async (req, res) => {
    const away = await findGroupsAway(db.shards);
    if (!away) throw nothingHere();
    // Sizes are available only if all servers are reachable.
    const placements = away.groups.length === 0 ? await listPlacements(db.orm) : [];
    const known = new Map(placements.map((placement): [string, Placement] => [placement.id, placement]));
    const groups = db.shards.groups.map(({ id, worker, load }) => ({
      id,
      worker,
      load,
      held: known.get(id),
      isAway: away.groups.includes(id),
    }));
    const page = { view: 'console/shards', title: 'Shard groups', section: 'shards' };
    const workers = sumByServer(placements);
    const mean = workers.reduce((sum, { bytes }) => sum + bytes, 0) / Math.max(1, workers.length);
    await renderPage(deps, req, res, page, {
      groups: groups.sort((a, b) => a.worker.localeCompare(b.worker) || a.id.localeCompare(b.id)),
      workers: workers.map((worker) => ({ ...worker, timesMean: worker.bytes / Math.max(1, mean) })),
    });
  });
  return router;
}

const operatorsOnly: RequestHandler = (_req, res, next) =>
  next(personOf(res).isOperator ? undefined : nothingHere());

/** Runs before any database lookup; only cookies signed by us count. */
function sessionLimit(context: Context): RequestHandler {
  const limit = perKeyLimit(context, {
    name: 'dashboard',
    perMinute: context.config.limits.dashboardPerMinute,
    keyOf: (req) => hashToken(readToken(req)!),
    caller: 'This session',
    calls: 'requests',
    isQuiet: true,
  });
  return (req, res, next) => (readToken(req) === undefined ? next() : limit(req, res, next));
}

const present = <T>(values: (T | undefined)[]): T[] => values.filter((value) => value !== undefined);
