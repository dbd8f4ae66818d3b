import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { Browser } from './accounts.js';
import { sharedChromium } from './chromium.js';
import { createTestDatabase, type TestDatabase } from './database.js';
import { guardPages, type PageGuard } from './page-guard.js';
import { startTestService, type TestService, type TestServiceOptions } from './service.js';

export const PHONE = { width: 360, height: 740 };
export const DESKTOP = { width: 1280, height: 900 };

export interface VisitOptions {
  javaScript?: boolean;
  as?: Browser;
  viewport?: { width: number; height: number };
  scheme?: 'light' | 'dark';
  at?: TestService;
}

interface BrowserWorldOptions extends TestServiceOptions {
  /** Host name by which browsers reach this machine; by default its IP address. */
  host?: string;
  /** Origin of another site that pages may redirect to. */
  issuer?: string;
}

export interface BrowserWorld {
  readonly db: TestDatabase['db'];
  readonly service: TestService;
  /**
   * Opens an empty page in a separate browser context. Relative URLs are resolved against the service's URL. The
   * context may be a cleared one from an earlier test, because creating a context takes a second.
   */
  visit(options?: VisitOptions): Promise<Page>;
  /**
   * Opens a read-only page shared by all tests of the file, because creating a context takes longer than opening a
   * page.
   */
  look(as?: Browser): Promise<Page>;
}

interface Visit {
  page: Page;
  context: BrowserContext;
  guard: PageGuard;
  javaScript: boolean;
  origin: string;
}

/** Chromium for one file's tests. A test also fails if one of its pages violates `guardPages`. */
export function browserWorld({ host, issuer, ...options }: BrowserWorldOptions = {}): BrowserWorld {
  let database: TestDatabase;
  let service: TestService;
  let open: Visit[] = [];
  const free: Visit[] = [];
  const looking = new Map<Browser | undefined, Visit>();
  const reported = new Set<string>();

  beforeAll(async () => {
    database = await createTestDatabase();
    // The tests create more keys than the default limit allows.
    service = await startTestService(database.db, {
      ...options,
      env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000', ...options.env },
    });
  });
  afterEach(async () => {
    const visits = open;
    open = [];
    const guards = [...visits, ...looking.values()].map(({ guard }) => guard);
    const complaints = (await Promise.all(guards.map((guard) => guard.complaints()))).flat();
    await Promise.all(visits.map(leave));
    const fresh = complaints.filter((complaint) => !reported.has(complaint));
    for (const complaint of fresh) reported.add(complaint);
    expect(fresh).toEqual([]);
  });
  afterAll(async () => {
    await Promise.all([...free, ...looking.values()].map(({ context }) => context.close()));
    await service.stop();
    await database.remove();
  });

  return {
    get db() {
      return database.db;
    },
    get service() {
      return service;
    },
    async visit(options = {}) {
      const visit = await start(options);
      open.push(visit);
      return visit.page;
    },
    async look(as) {
      const known = looking.get(as);
      if (known) return known.page;
      const visit = await start({ ...(as && { as }) });
      looking.set(as, visit);
      return visit.page;
    },
  };

  async function start(options: VisitOptions): Promise<Visit> {
    const { javaScript = true, as, viewport = DESKTOP, scheme = 'light', at = service } = options;
    const origin = host === undefined ? at.url : at.url.replace('127.0.0.1', host);
    const left = free.findIndex((each) => each.javaScript === javaScript && each.origin === origin);
    const [found] = left === -1 ? [] : free.splice(left, 1);
    const visit = found ?? (await startBrowser(javaScript, origin));
    await visit.page.setViewportSize(viewport);
    // Colours can be measured reliably only without transitions.
    await visit.page.emulateMedia({
      colorScheme: scheme,
      reducedMotion: 'reduce',
      forcedColors: null,
      media: null,
    });
    if (as) await visit.context.addCookies(cookiesOf(as));
    return visit;
  }

  async function startBrowser(javaScript: boolean, origin: string): Promise<Visit> {
    const context = await (
      await sharedChromium()
    ).newContext({
      baseURL: origin,
      javaScriptEnabled: javaScript,
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    });
    context.setDefaultTimeout(15_000);
    const guard = await guardPages(context, origin, issuer);
    return { page: await context.newPage(), context, guard, javaScript, origin };
  }

  async function leave(visit: Visit): Promise<void> {
    const { page, context } = visit;
    await page.goto('about:blank');
    await context.clearCookies();
    await context.clearPermissions();
    free.push(visit);
  }
}

const cookiesOf = ({ url, cookies }: Browser) => [...cookies].map(([name, value]) => ({ name, value, url }));
