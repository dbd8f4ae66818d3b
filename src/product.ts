import type { RequestHandler, Router } from 'express';
import type { Registry } from 'prom-client';
import type { CallDeps } from './accounts/api-keys/key-use.js';
import type { LimitCalls } from './accounts/api-keys/guards.js';
import type { ConfigPart, ServiceConfig } from './core/config.js';
import type { Job } from './core/db/jobs.js';
import type { Context } from './core/http/context.js';
import type { Metrics } from './core/metrics.js';
import type { DemoData } from './demo/demo.js';

/** One of the products that the shell joins. Each knows the core and the accounts, and no other product. */
export interface Product {
  name: string;
  config: ConfigPart;
  createMetrics: (registers: Registry[]) => Partial<Metrics>;
  /** Default: always on. */
  isOn?: (config: ServiceConfig) => boolean;
  create: (context: Context, calls: CallDeps, options: ProductOptions) => RunningProduct;
}

/** Options of the products, for tests, benchmarks and commands. Each product adds its own with `declare module`. */
export interface ProductOptions {}

/** What the products offer to pages, commands and tests. Each product adds its own with `declare module`. */
export interface Services extends CallDeps {}

/** A product at work in one app. Everything is mounted by the shell. */
export interface RunningProduct {
  services: Partial<Services>;
  /** Mounts routes below `/api`. `limitTo` limits the calls per minute of each key. */
  mountApi?: (router: Router, limitTo: LimitCalls) => void;
  /** Addresses of its own. */
  router?: RequestHandler;
  /** Below `/dashboard`. */
  pages: RequestHandler[];
  /** Below `/console`. */
  consolePages: RequestHandler[];
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
  /** Fills in the demo's past as of the context's clock. Repeating it changes nothing. */
  fillDemo?: (context: Context, demo: DemoData, signal: AbortSignal) => Promise<void>;
  /** Runs once the demo's past is complete. */
  afterPast?: () => Promise<void>;
  /** Ends background work. Streams end here: the server would wait for their readers. */
  stop?: () => Promise<void>;
  /** Finishes what was accepted, after the last request. */
  drain?: () => Promise<void>;
}
