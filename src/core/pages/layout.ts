import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import type { Clock } from '../time.js';
import { createAssets } from '../http/assets.js';
import { toAddress } from './address.js';
import { takeForms } from './form.js';
import * as format from './format.js';
import { fontFile, fontSheet, styleSheets } from './stylesheet.js';

export interface PageDeps {
  clock: Clock;
}

/** Reads what surrounds every page: the navigation and the signed-in person. Called only when a page is rendered. */
export type ReadFrame = (res: Response, section: string | undefined) => Promise<object>;

const frameOf = Symbol('frame');

export const pageFrame =
  (read: ReadFrame): RequestHandler =>
  (_req, res, next) => {
    Object.assign(res.locals, { [frameOf]: read });
    next();
  };

export interface Page {
  /** Template below `views`. */
  view: string;
  title: string;
  section?: string;
  /** `card`: a narrow page without navigation, for people who are not signed in. */
  frame?: 'card' | 'dashboard';
  /** Messages after a completed form, by the word in `?done=`. */
  notices?: Record<string, string>;
}

const ui = { ...format, toAddress };

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL('../../../views/assets', import.meta.url));

export const pageAssets = createAssets('/dashboard/assets', () => [
  ...readdirSync(folder)
    .sort()
    .map((name) => join(folder, name)),
  fontFile,
  { name: 'gauge.css', files: [fontSheet, ...styleSheets] },
  // The package's small build is not a module.
  {
    name: 'idiomorph.js',
    files: [require.resolve('idiomorph/dist/idiomorph.min.js')],
    end: 'export { Idiomorph };',
  },
  // Its single-file build for old module systems.
  {
    name: 'webauthn.js',
    files: [join(require.resolve('@simplewebauthn/browser'), '../../dist/bundle/index.umd.min.js')],
    end: 'export const { startAuthentication, startRegistration } = globalThis.SimpleWebAuthnBrowser;',
  },
]);

/**
 * Answers with a page in its frame. `data` is the complete view object: templates run no queries. Templates also see
 * `ui` (formatting), `now`, and the values of the frame, such as `me` (the signed-in person, or undefined).
 */
export async function renderPage(
  { clock }: PageDeps,
  req: Request,
  res: Response,
  page: Page,
  data: object,
): Promise<void> {
  const kept = await takeForms(req, res, data);
  const readFrame = (res.locals as { [frameOf]?: ReadFrame })[frameOf];
  res.render('layout', {
    ...data,
    ...kept,
    ...page,
    frame: page.frame ?? 'dashboard',
    template: page.view,
    nonce: res.locals.nonce as string,
    assets: await pageAssets.base(),
    ui,
    now: new Date(clock.now()),
    ...(await readFrame?.(res, page.section)),
    noticeTone: kept ? 'info' : 'good',
    notice: kept
      ? 'Nothing has been changed yet. Check the form below and submit it again.'
      : noticeOf(req, page.notices),
  });
}

/** `?done=` selects one of the page's own texts, so an address cannot put any other text on a page. */
function noticeOf({ query }: Request, notices: Record<string, string> = {}): string | undefined {
  const { done } = query;
  return typeof done === 'string' && Object.hasOwn(notices, done) ? notices[done] : undefined;
}

const pages = Symbol('pages');

/** A router of pages for people. The tests find them by this mark and open each with every role. */
export const pageRouter = (): Router => Object.assign(Router(), { [pages]: true });

export const isPageRouter = (handler: object): boolean => pages in handler;
