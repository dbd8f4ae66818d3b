import type { Browser as Chromium, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { Browser } from './accounts.js';
import { launchChromium } from './chromium.js';
import { createTestDatabase, type TestDatabase } from './database.js';
import { guardPages, type PageGuard } from './page-guard.js';
import { startTestService, type TestService, type TestServiceOptions } from './service.js';

export const PHONE = { width: 360, height: 740 };
export const DESKTOP = { width: 1280, height: 900 };

export interface VisitOptions {
  /** Whether scripts run. Every page works without. */
  javaScript?: boolean;
  /** A person who has signed in already, to whose session the new browser gets the cookies. */
  as?: Browser;
  viewport?: { width: number; height: number };
  scheme?: 'light' | 'dark';
}

interface BrowserWorldOptions extends TestServiceOptions {
  /** By which browsers call this machine, if not by its number. */
  host?: string;
}

export interface BrowserWorld {
  readonly db: TestDatabase['db'];
  readonly service: TestService;
  /** A person sits down at a browser of their own, on an empty page. Addresses are relative to the service. */
  visit(options?: VisitOptions): Promise<Page>;
  /** The page of a person who only looks: the same one in every test of the file, because a new browser takes longer than a page. */
  look(as?: Browser): Promise<Page>;
}

/**
 * Chromium in front of the whole service, for the tests of one file: call it at the top of the file. A test fails as well
 * when one of its pages did what no page may do (see `guardPages`).
 */
export function browserWorld({ host, ...options }: BrowserWorldOptions = {}): BrowserWorld {
  let database: TestDatabase;
  let service: TestService;
  let chromium: Chromium | undefined;
  let open: { context: BrowserContext; guard: PageGuard }[] = [];
  const looking = new Map<Browser | undefined, { page: Page; guard: PageGuard }>();
  const said = new Set<string>();

  beforeAll(async () => {
    [database, chromium] = await Promise.all([createTestDatabase(), launchChromium()]);
    // Scenes differ by who acts, not by how often: all of them come from one address.
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
    await Promise.all(visits.map(({ context }) => context.close()));
    const fresh = complaints.filter((complaint) => !said.has(complaint));
    for (const complaint of fresh) said.add(complaint);
    expect(fresh).toEqual([]);
  });
  afterAll(async () => {
    await chromium?.close();
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
      return visit.context.newPage();
    },
    async look(as) {
      const known = looking.get(as);
      if (known) return known.page;
      const { context, guard } = await start({ ...(as && { as }) });
      const page = await context.newPage();
      looking.set(as, { page, guard });
      return page;
    },
  };

  async function start({ javaScript = true, as, viewport = DESKTOP, scheme = 'light' }: VisitOptions) {
    const origin = host === undefined ? service.url : service.url.replace('127.0.0.1', host);
    const context = await chromium!.newContext({
      baseURL: origin,
      javaScriptEnabled: javaScript,
      viewport,
      colorScheme: scheme,
      // Colours are measured at once, not on their way.
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    });
    context.setDefaultTimeout(15_000);
    const guard = await guardPages(context, origin);
    if (as) await context.addCookies(cookiesOf(as));
    return { context, guard };
  }
}

const cookiesOf = ({ url, cookies }: Browser) => [...cookies].map(([name, value]) => ({ name, value, url }));
