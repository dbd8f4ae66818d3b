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
import { styleSheets } from './stylesheet.js';

export interface PageDeps {
  clock: Clock;
}

/** What stands around every page: the navigation and who is signed in. Read only when a page is answered with. */
export type ReadFrame = (res: Response, section: string | undefined) => Promise<object>;

const frameOf = Symbol('frame');

/** Pages behind this stand in the frame that `read` finds. */
export const pageFrame =
  (read: ReadFrame): RequestHandler =>
  (_req, res, next) => {
    Object.assign(res.locals, { [frameOf]: read });
    next();
  };

export interface Page {
  /** The template, below `views`. */
  view: string;
  title: string;
  /** Which entry of the navigation is the current one. */
  section?: string;
  /** `card`: a narrow page without navigation, for who is not signed in. */
  frame?: 'card' | 'dashboard';
  /** What the page says when a form that was carried out has led to it: by the word in `?done=`. */
  notices?: Record<string, string>;
}

/** What templates write addresses, numbers and times with. */
const ui = { ...format, toAddress };

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL('../../../views/assets', import.meta.url));

export const pageAssets = createAssets('/dashboard/assets', () => [
  ...readdirSync(folder)
    .sort()
    .map((name) => join(folder, name)),
  { name: 'gauge.css', files: styleSheets },
  // The package's small build is no module.
  {
    name: 'idiomorph.js',
    files: [require.resolve('idiomorph/dist/idiomorph.min.js')],
    end: 'export { Idiomorph };',
  },
  // Its build for old module systems, in one file.
  {
    name: 'webauthn.js',
    files: [join(require.resolve('@simplewebauthn/browser'), '../../dist/bundle/index.umd.min.js')],
    end: 'export const { startAuthentication, startRegistration } = globalThis.SimpleWebAuthnBrowser;',
  },
]);

/**
 * Answers with a page in the dashboard's frame. `data` is the template's view object, complete: templates run no queries.
 * Beside it they see `ui` (formatting), `now`, and what the frame gives, such as `me` (who is signed in, or undefined).
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
      ? 'Nothing has been changed yet. The form is as you had filled it in: check it, and send it again.'
      : noticeOf(req, page.notices),
  });
}

/** The word of `?done=` stands for one of the page's own texts: an address cannot make a page say anything else. */
function noticeOf({ query }: Request, notices: Record<string, string> = {}): string | undefined {
  const { done } = query;
  return typeof done === 'string' && Object.hasOwn(notices, done) ? notices[done] : undefined;
}

const pages = Symbol('pages');

/**
 * A router whose routes answer with pages for people. They are no part of the API that the reference describes; the
 * tests find them by this mark, to look at each of them with every role.
 */
export const pageRouter = (): Router => Object.assign(Router(), { [pages]: true });

export const isPageRouter = (handler: object): boolean => pages in handler;
