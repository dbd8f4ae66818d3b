import type { RequestHandler, Router } from 'express';
import type { Registry } from 'prom-client';
import type { CallDeps } from './accounts/api-keys/key-use.js';
import type { LimitCalls } from './accounts/api-keys/guards.js';
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

/** A product of the service. It may use the core and the accounts, but no other product. */
export interface Product {
  name: string;
  config: ConfigPart;
  demo: DemoPart;
  auditWording: Wording;
  /** Imports the product's part of the reference when the documentation is first requested. */
  loadReference: () => Promise<ReferencePart>;
  /** Sections in the dashboard's navigation. */
  sections: Section[];
  consoleSections: ConsoleSection[];
  customerTabs: CustomerTab[];
  customerSummary?: CustomerSummary;
  readOverviewPanel?: ReadOverviewPanel;
  webhookTypes: Partial<WebhookTypes>;
  reconciliation: Reconciliation;
  /** HTTP statuses of the product's own error codes. */
  errors: Partial<StatusByCode>;
  createMetrics: (registers: Registry[]) => Partial<Metrics>;
  /** Default: always on. */
  isOn?: (config: ServiceConfig) => boolean;
  create: (context: Context, calls: CallDeps, options: ProductOptions) => ProductAtWork;
}

/** Options for tests, benchmarks and commands. Each product adds its own with `declare module`. */
export interface ProductOptions {
  /** Whether work that takes seconds runs in other threads. Default: false. */
  inThreads?: boolean;
}

/** Services of the products for pages, commands and tests. Each product adds its own with `declare module`. */
export interface Services extends CallDeps {}

export type RunningProduct = Product & ProductAtWork;

/** A product's parts in one app. The shell mounts and calls them. */
export interface ProductAtWork {
  services: Partial<Services>;
  /** Reads the member's own values, which replace the documentation's example values. */
  readOwnPart: ReadOwnPart;
  /** Mounts routes at `/api`. `limitTo` limits the calls per minute of each key. */
  mountApi?: (router: Router, limitTo: LimitCalls) => void;
  /** Routes at other paths. */
  router?: RequestHandler;
  /** Mounted at `/dashboard`. */
  pages: RequestHandler[];
  /** Mounted at `/console`. */
  consolePages: (deps: ConsoleDeps & Context) => RequestHandler[];
  setUpStep?: SetUpStep;
  findForMember?: FindForMember;
  findForOperator?: FindForOperator;
  /** Mounts routes at `/operator`. */
  mountOperator: (router: Router) => void;
  jobs: Job[];
  /** Jobs that start only after the demo's past is complete, because they would give past records the current time. */
  jobsAfterPast?: Job[];
  /** Starts while the database is being prepared. A demo waits a few seconds for this to finish. */
  beginLoading?: () => Promise<void>;
  /** Runs once the database is prepared, before the service is ready. */
  load?: () => Promise<void>;
  start?: () => void;
  /** Returns the product's part of the greeting. The commands in it work as printed. */
  greet: (demo: DemoData, baseUrl: string) => GreetingPart;
  /** Fills in the demo's past, using the context's clock. Running it again changes nothing. */
  fillDemo?: (context: Context, demo: DemoData, signal: AbortSignal) => Promise<void>;
  afterPast?: () => Promise<void>;
  /** Stops background work and streams, because the server would otherwise wait for clients to close the streams. */
  stop?: () => Promise<void>;
  /** Finishes accepted work after the last request. */
  drain?: () => Promise<void>;
}
