import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Request, RequestHandler, Response, Router } from 'express';
import { createRouter } from '../http/router.js';
import type { Clock } from '../time.js';
import { createAssets } from '../http/assets.js';
import { publicAddressOf } from '../http/request.js';
import { toAddress } from './address.js';
import { takeForms } from './form.js';
import * as format from './format.js';
import { fontFile, fontSheet, styleSheets } from './stylesheet.js';

export interface PageDeps {
  clock: Clock;
}

/** Called only when a page is rendered. */
export type ReadFrame = (res: Response, section: string | undefined) => Promise<object>;

const frameOf = Symbol('frame');

export const pageFrame =
  (read: ReadFrame): RequestHandler =>
  (_req, res, next) => {
    Object.assign(res.locals, { [frameOf]: read });
    next();
  };

export interface Page {
  view: string;
  /** A view before it. */
  head?: string;
  title: string;
  /** For search engines and previews of links. */
  description?: string;
  section?: string;
  /** `card` is for people who are not signed in. */
  frame?: 'card' | 'dashboard';
  /** Keyed by the value of `?done=`. */
  notices?: Record<string, string>;
  /** Default: good. */
  noticeTone?: 'good' | 'info';
}

/** From `views/icons/sprite.ejs`. */
const icon = (name: string): string =>
  `<svg class="icon" aria-hidden="true" focusable="false"><use href="#icon-${name}"/></svg>`;

const ui = { ...format, toAddress, icon };

/** Browsers and crawlers ask for it at this address. */
export const sendFavicon: RequestHandler = (_req, res) =>
  res.sendFile(join(folder, 'favicon.ico'), { maxAge: '1 day' });

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL('../../../views/assets', import.meta.url));

export const pageAssets = createAssets('/dashboard/assets', () => [
  ...readdirSync(folder)
    .sort()
    .map((name) => join(folder, name)),
  fontFile,
  { name: 'gauge.css', files: [fontSheet, ...styleSheets] },
  // The minified build is not a module, so an export is appended.
  {
    name: 'idiomorph.js',
    files: [require.resolve('idiomorph/dist/idiomorph.min.js')],
    end: 'export { Idiomorph };',
  },
  // The UMD bundle is a single file. An export is appended.
  {
    name: 'webauthn.js',
    files: [join(require.resolve('@simplewebauthn/browser'), '../../dist/bundle/index.umd.min.js')],
    end: 'export const { startAuthentication, startRegistration } = globalThis.SimpleWebAuthnBrowser;',
  },
]);

/** `data` is the whole view object: templates run no queries. They also get `ui`, `now` and the frame's values. */
export async function renderPage({ clock }: PageDeps, req: Request, res: Response, page: Page, data: object) {
  const kept = await takeForms(req, res, data);
  const readFrame = (res.locals as { [frameOf]?: ReadFrame })[frameOf];
  res.render('layout', {
    ...data,
    ...kept,
    ...page,
    frame: page.frame ?? 'dashboard',
    template: page.view,
    address: publicAddressOf(req),
    nonce: res.locals.nonce as string,
    assets: await pageAssets.base(),
    ui,
    now: new Date(clock.now()),
    ...(await readFrame?.(res, page.section)),
    noticeTone: kept ? 'info' : (page.noticeTone ?? 'good'),
    notice: kept
      ? 'Nothing has been changed yet. Check the form below and submit it again.'
      : noticeOf(req, page.notices),
  });
}

/** A link cannot put other text on a page. */
export function noticeOf({ query }: Request, notices: Record<string, string> = {}): string | undefined {
  const { done } = query;
  return typeof done === 'string' && Object.hasOwn(notices, done) ? notices[done] : undefined;
}

const pages = Symbol('pages');

/** Tests find page routers by this mark and open each page with every role. */
export const pageRouter = (): Router => Object.assign(createRouter(), { [pages]: true });

export const isPageRouter = (handler: object): boolean => pages in handler;
