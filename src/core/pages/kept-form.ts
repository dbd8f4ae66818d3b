import type { Request, Response } from 'express';
import { prefersHtml } from '../http/request-line.js';
import { readForm } from '../http/form-body.js';
import { ownReferer } from '../http/own-origin.js';
import { isPostedForm, withoutSecrets, type FormFields, type FormState } from './form.js';

/**
 * What was typed into a form that came when its person was no longer signed in. It waits, without passwords and codes, until
 * the form's page is shown again to the same person in the same browser.
 */
export interface KeptForm {
  page: string;
  values: FormFields;
}

/** What a posted form says; undefined if this is no form of one of our pages. */
export async function readTyped(req: Request, res: Response): Promise<KeptForm | undefined> {
  const page = ownReferer(req);
  if (page === undefined || !isPostedForm(req) || !prefersHtml(req)) return undefined;
  return { page, values: withoutSecrets((await readForm(req, res)) as FormFields) };
}

const NAME = 'gauge_form';
const options = (req: Request) =>
  ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' }) as const;

export function sendFormToken(req: Request, res: Response, token: string, maxAge: number): void {
  res.cookie(NAME, token, { ...options(req), maxAge });
}

const taken = Symbol('taken form');
type Locals = { [taken]?: (page: string) => Promise<FormFields | undefined> };

/** Lets the page that a browser with a token asks for take what was typed into its form: `take`, by the token. */
export function offerForm(
  req: Request,
  res: Response,
  take: (token: string, page: string) => Promise<FormFields | undefined>,
): void {
  const token = new RegExp(`(?:^|;\\s*)${NAME}=([\\w-]{43})(?:;|$)`).exec(req.headers.cookie ?? '')?.[1];
  if (token === undefined || req.method !== 'GET') return;
  const locals = res.locals as Locals;
  locals[taken] = async (page) => {
    const values = await take(token, page);
    if (values) res.clearCookie(NAME, options(req));
    return values;
  };
}

/** The form of this page as the signed-in person typed it before, once; undefined if none was kept for it. */
export async function takeForm(req: Request, res: Response, form: FormState): Promise<FormState | undefined> {
  const values = await (res.locals as Locals)[taken]?.(req.originalUrl);
  return values && { ...form, values: { ...form.values, ...values } };
}
