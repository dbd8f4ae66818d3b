import type { RequestHandler } from 'express';
import type { Job } from '../core/db/jobs.js';
import type { Context } from '../core/http/context.js';
import { mountRoutes, type Route } from '../core/reference/define-route.js';
import { forOrganization } from '../accounts/service-keys/routes.js';
import type { Section } from '../dashboard/frame.js';
import type { Product } from '../product.js';

import { meteringConfig } from './config.js';
import { consolePages, consoleSections, customerTabs } from './console/console.js';
import { customerSummary } from './console/customer-summary.js';
import { correctionRoutes, operatorCorrectionRoutes } from './corrections/routes.js';
import { creditRoutes, operatorCreditRoutes } from './credit-grants/routes.js';
import { createCreditMessages, createCreditWatch } from './credit-grants/watch.js';
import { auditWording } from './dashboard/audit-wording.js';
import { readOverviewPanel } from './dashboard/overview.js';
import { createMeteringFinder, createMeteringOperatorFinder } from './dashboard/search.js';
import { demo } from './demo/demo.js';
import { greet } from './demo/greeting.js';
import { seedDemoUsage } from './demo/usage.js';
import { entitlementRoutes as operatorEntitlementRoutes } from './entitlements/operator/routes.js';
import { entitlementPages } from './entitlements/pages.js';
import { productRoutes } from './entitlements/products/routes.js';
import { findLiveProduct } from './entitlements/queries.js';
import { readKeyCredits } from './reports/key-credits.js';
import { createKeyVerifier } from './entitlements/key-verifier.js';
import { createEntitlementReader } from './entitlements/reader.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { meteringStatuses } from './errors.js';
import { createIngestion } from './ingestion/ingestion.js';
import { operatorUsageRoutes } from './ingestion/operator-routes.js';
import { usageRoutes } from './ingestion/routes.js';
import { manyUsageRoutes } from './ingestion/many-routes.js';
import { verifyRoutes } from './entitlements/verify-routes.js';
import { createMeteringMetrics } from './metrics.js';
import { createEndingMessages } from './notices/endings.js';
import {
  createBalanceAlerts,
  createCapNotices,
  createCreditAlerts,
  deleteOldNotices,
} from './notices/notices.js';
import { alertPages } from './notices/pages.js';
import { createOwnMeteringReader } from './own-values.js';
import { customerUsageRoutes } from './reports/operator/routes.js';
import { reconciliation } from './reconciliation/reconciliation.js';
import { readHasCredits } from './reports/credits/queries.js';
import { creditPages } from './reports/credits/pages.js';
import { explorerPages, usagePages } from './reports/pages.js';
import { usageReadRoutes } from './reports/reading/routes.js';
import { createPlanJob } from './plans/job.js';
import { planRoutes } from './plans/operator-routes.js';
import { readPlanView } from './plans/view.js';
import { createReservations, watchReservations } from './reservations/reservations.js';
import { reservationRoutes } from './reservations/routes.js';
import { createSettlements } from './reservations/settlements.js';
import { stripeJobs } from './stripe/stripe.js';
import { createSetUpStep } from './set-up/first-product.js';
import { meteringTypes } from './webhook-types.js';
import { createThresholds } from './thresholds/thresholds.js';

type MeteringServices = ReturnType<typeof createMeteringServices>;

declare module '../product.js' {
  interface Services extends MeteringServices {}
}

const sections: Section[] = [
  { id: 'usage', href: '/dashboard/usage', label: 'Usage', words: 'events cost spend', beginsGroup: true },
  { id: 'entitlements', href: '/dashboard/entitlements', label: 'Entitlements', words: 'plan caps limits' },
  {
    id: 'credits',
    href: '/dashboard/credits',
    label: 'Credits',
    words: 'billing',
    isOffered: readHasCredits,
  },
];

export const metering: Product = {
  name: 'metering',
  introduction: 'metering/introduction',
  config: meteringConfig,
  errors: meteringStatuses,
  webhookTypes: meteringTypes,
  createMetrics: createMeteringMetrics,
  demo,
  auditWording,
  loadReference: async () => (await import('./reference.js')).meteringReference,
  sections,
  consoleSections,
  customerTabs,
  customerSummary,
  reconciliation,
  create(context, calls) {
    const services = createMeteringServices(context);
    const { ingestion, reservations, settlements, thresholds } = services;
    const { usagePerMinute, entitlementsPerMinute } = context.config.limits;
    const deps = { ...context, ...calls, ...services };
    // In the dashboard and in the portal.
    const sharedPages = [
      explorerPages(context),
      entitlementPages(context, readPlanView),
      creditPages(context),
    ];
    return {
      services,
      readOverviewPanel,
      readOwnPart: createOwnMeteringReader(context),
      mountApi(router, limitTo) {
        const usageLimit = limitTo('usage', usagePerMinute);
        const entitlementsLimit = limitTo('entitlements', entitlementsPerMinute);
        // In order of call frequency.
        mountRoutes(router, '/api', usageRoutes, deps, () => [usageLimit]);
        mountRoutes(router, '/api', entitlementRoutes, deps, () => [entitlementsLimit]);
        mountRoutes(router, '/api', countedRoutes, deps, () => [usageLimit]);
      },
      mountService(router, { limitTo, whole }, access) {
        const usageLimit = limitTo('usage', usagePerMinute);
        const entitlementsLimit = limitTo('entitlements', entitlementsPerMinute);
        const mount = <Deps>(routes: readonly Route<Deps>[], own: Deps, guard: RequestHandler) =>
          mountRoutes(router, '/service', routes, own, () => [guard]);
        mount(usageRoutes.map(forOrganization), deps, usageLimit);
        mount(verifyRoutes, { ...deps, access, verifyKey: createKeyVerifier(context) }, whole);
        mount(manyUsageRoutes, { ...deps, access }, whole);
        mount(entitlementRoutes.map(forOrganization), deps, entitlementsLimit);
        mount(countedRoutes.map(forOrganization), deps, usageLimit);
      },
      pages: [usagePages(context), alertPages(context), ...sharedPages],
      portalPages: sharedPages,
      consolePages,
      setUpStep: createSetUpStep(context.config),
      findForMember: createMeteringFinder(context),
      findForOperator: createMeteringOperatorFinder(context),
      mountOperator(router) {
        mountRoutes(router, '/operator', operatorMeteringRoutes, context);
        mountRoutes(router, '/operator', operatorUsageRoutes, deps);
      },
      jobs: [...meteringJobs(context, services), ...noticeJobs(context), ...stripeJobs(context)],
      greet,
      fillDemo: seedDemoUsage,
      async drain() {
        await Promise.all([ingestion.drain(), reservations.drain(), settlements.drain()]);
        await thresholds.drain();
      },
    };
  },
};

const countedRoutes = [...reservationRoutes, ...correctionRoutes, ...usageReadRoutes, ...creditRoutes];

const operatorMeteringRoutes = [
  ...productRoutes,
  ...operatorEntitlementRoutes,
  ...customerUsageRoutes,
  ...operatorCorrectionRoutes,
  ...operatorCreditRoutes,
  ...planRoutes,
];

function createMeteringServices(context: Context) {
  const thresholds = createThresholds(context);
  return {
    thresholds,
    ingestion: createIngestion({ ...context, thresholds }),
    reservations: createReservations(context),
    settlements: createSettlements({ ...context, thresholds }),
    entitlements: createEntitlementReader(context),
    findLiveProduct,
    readKeyCredits,
  };
}

const meteringJobs = (
  { db, clock, metrics }: Context,
  { thresholds }: Pick<MeteringServices, 'thresholds'>,
): Job[] => [
  { name: 'send-credit-messages', schedule: '*/10 * * * * *', run: createCreditMessages({ db, clock }) },
  { name: 'continue-plans', schedule: '30 * * * * *', run: createPlanJob({ db, clock, metrics }) },
  { name: 'count-credits', schedule: '10 * * * * *', run: createCreditWatch({ db, clock, metrics }) },
  { name: 'evaluate-thresholds', schedule: '* * * * * *', run: () => thresholds.evaluateAll() },
  {
    name: 'count-reservations',
    schedule: '40 * * * * *',
    run: () => watchReservations({ db, clock, metrics }),
  },
];

const noticeJobs = (context: Context): Job[] => [
  {
    name: 'delete-old-notices',
    schedule: '0 31 * * * *',
    run: () => deleteOldNotices(context.db, new Date(context.clock.now())),
  },
  { name: 'send-ending-notices', schedule: '20 */10 * * * *', run: createEndingMessages(context) },
  { name: 'report-caps', schedule: '20 * * * * *', run: createCapNotices(context) },
  { name: 'report-credit-alerts', schedule: '50 * * * * *', run: createCreditAlerts(context) },
  { name: 'report-balance-alerts', schedule: '55 * * * * *', run: createBalanceAlerts(context) },
];
