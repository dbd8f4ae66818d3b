import type { RequestHandler, Router } from 'express';
import type { Registry } from 'prom-client';
import type { CallDeps } from './accounts/api-keys/key-use.js';
import type { LimitCalls } from './accounts/api-keys/guards.js';
import type { ServiceAccess, ServiceGuards } from './accounts/service-keys/access.js';
import type { ConfigPart, ServiceConfig } from './core/config.js';
import type { StatusByCode } from './core/errors.js';
import type { Job } from './core/db/jobs.js';
import type { Reconciliation } from './core/db/reconciliation.js';
import type { Context } from './core/http/context.js';
import type { Metrics } from './core/metrics.js';
import type { ReadOwnPart } from './core/reference/own-examples.js';
import type { ReferencePart } from './core/reference/described.js';
import type { WebhookTypes } from './accounts/webhooks/types.js';
import type { Wording } from './accounts/audit/wording.js';
import type { CustomerSummary } from './console/customer-summary.js';
import type { ConsoleDeps, CustomerTab } from './console/page.js';
import type { ConsoleSection, Section } from './dashboard/frame.js';
import type { ReadOverviewPanel } from './dashboard/overview/pages.js';
import type { FindForMember, FindForOperator } from './dashboard/search/search.js';
import type { DemoData, DemoPart, GreetingPart } from './demo/demo.js';
import type { SetUpStep } from './set-up/set-up.js';

/** May use the core and the accounts, but no other product. */
export interface Product {
  name: string;
  config: ConfigPart;
  demo: DemoPart;
  auditWording: Wording;
  /** Imported when the documentation is first requested. */
  loadReference: () => Promise<ReferencePart>;
  /** In the dashboard. */
  sections: Section[];
  consoleSections: ConsoleSection[];
  customerTabs: CustomerTab[];
  customerSummary?: CustomerSummary;
  /** A template: the product's part of the front page. */
  introduction: string;
  webhookTypes: Partial<WebhookTypes>;
  reconciliation: Reconciliation;
  /** For the product's own error codes. */
  errors: Partial<StatusByCode>;
  createMetrics: (registers: Registry[]) => Partial<Metrics>;
  /** Default: always. */
  isOn?: (config: ServiceConfig) => boolean;
  create: (context: Context, calls: CallDeps, options: ProductOptions) => ProductAtWork;
}

/** For tests, benchmarks and commands. Each product adds its own with `declare module`. */
export interface ProductOptions {
  /** For work that takes seconds. Default: false. */
  inThreads?: boolean;
}

/** Each product adds its own with `declare module`. */
export interface Services extends CallDeps {}

export type RunningProduct = Product & ProductAtWork;

/** In one app. The shell mounts and calls these. */
export interface ProductAtWork {
  services: Partial<Services>;
  /** Replace the documentation's example values. */
  readOwnPart: ReadOwnPart;
  /** At `/api`. */
  mountApi?: (router: Router, limitTo: LimitCalls) => void;
  /** At `/service`. */
  mountService?: (router: Router, guards: ServiceGuards, access: ServiceAccess) => void;
  /** At other paths. */
  router?: RequestHandler;
  /** At `/dashboard`. */
  pages: RequestHandler[];
  /** At `/portal`. */
  portalPages?: RequestHandler[];
  /** At `/console`. */
  consolePages: (deps: ConsoleDeps & Context) => RequestHandler[];
  setUpStep?: SetUpStep;
  readOverviewPanel?: ReadOverviewPanel;
  findForMember?: FindForMember;
  findForOperator?: FindForOperator;
  /** At `/operator`. */
  mountOperator: (router: Router) => void;
  jobs: Job[];
  /** These would give records of the demo's past the current time. */
  jobsAfterPast?: Job[];
  /** While the database is being prepared. A demo waits a few seconds for it. */
  beginLoading?: () => Promise<void>;
  /** After the database is prepared, before the service is ready. */
  load?: () => Promise<void>;
  start?: () => void;
  /** The commands work as printed. */
  greet: (demo: DemoData, baseUrl: string) => GreetingPart;
  /** Uses the context's clock. Running it again changes nothing. */
  fillDemo?: (context: Context, demo: DemoData, signal: AbortSignal) => Promise<void>;
  afterPast?: () => Promise<void>;
  /** The server would otherwise wait for clients to close their streams. */
  stop?: () => Promise<void>;
  /** After the last request. */
  drain?: () => Promise<void>;
}
