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

/** One of the products that the shell joins. Each knows the core and the accounts, and no other product. */
export interface Product {
  name: string;
  config: ConfigPart;
  demo: DemoPart;
  auditWording: Wording;
  /** Loaded with the first page of the documentation. */
  loadReference: () => Promise<ReferencePart>;
  /** Sections of the dashboard's navigation. */
  sections: Section[];
  consoleSections: ConsoleSection[];
  /** Tabs of a customer in the console. */
  customerTabs: CustomerTab[];
  customerSummary?: CustomerSummary;
  readOverviewPanel?: ReadOverviewPanel;
  webhookTypes: Partial<WebhookTypes>;
  reconciliation: Reconciliation;
  /** HTTP status of each error code that the product adds. */
  errors: Partial<StatusByCode>;
  createMetrics: (registers: Registry[]) => Partial<Metrics>;
  /** Default: always on. */
  isOn?: (config: ServiceConfig) => boolean;
  create: (context: Context, calls: CallDeps, options: ProductOptions) => ProductAtWork;
}

/** Options of the products, for tests, benchmarks and commands. Each product adds its own with `declare module`. */
export interface ProductOptions {
  /** Whether work that takes seconds runs in threads. Default: on this thread. */
  inThreads?: boolean;
}

/** What the products offer to pages, commands and tests. Each product adds its own with `declare module`. */
export interface Services extends CallDeps {}

export type RunningProduct = Product & ProductAtWork;

/** What a product does in one app. The shell mounts and calls everything. */
export interface ProductAtWork {
  services: Partial<Services>;
  /** Reads the member's own values that replace the examples' values in the documentation. */
  readOwnPart: ReadOwnPart;
  /** Mounts routes below `/api`. `limitTo` limits the calls per minute of each key. */
  mountApi?: (router: Router, limitTo: LimitCalls) => void;
  /** Further addresses. */
  router?: RequestHandler;
  /** Below `/dashboard`. */
  pages: RequestHandler[];
  /** Below `/console`. */
  consolePages: (deps: ConsoleDeps & Context) => RequestHandler[];
  setUpStep?: SetUpStep;
  /** Finds rows of the product for the search of the dashboard. */
  findForMember?: FindForMember;
  /** For the search of the console. */
  findForOperator?: FindForOperator;
  /** Below `/operator`. */
  mountOperator: (router: Router) => void;
  jobs: Job[];
  /** Jobs that would date the demo's past to the present, so they wait until it is complete. */
  jobsAfterPast?: Job[];
  /** Begins while the database is being prepared. A demo waits for it, but not for long. */
  beginLoading?: () => Promise<void>;
  /** Runs once the database is prepared, before the service is ready. */
  load?: () => Promise<void>;
  /** Runs when the service is ready. */
  start?: () => void;
  /** The commands work as printed. */
  greet: (demo: DemoData, baseUrl: string) => GreetingPart;
  /** Fills in the demo's past as of the context's clock. Repeating it changes nothing. */
  fillDemo?: (context: Context, demo: DemoData, signal: AbortSignal) => Promise<void>;
  /** Runs once the demo's past is complete. */
  afterPast?: () => Promise<void>;
  /** Ends background work. Streams end here: the server would wait for their readers. */
  stop?: () => Promise<void>;
  /** Finishes what was accepted, after the last request. */
  drain?: () => Promise<void>;
}
