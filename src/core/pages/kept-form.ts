import type { Request, Response } from 'express';
import { z } from 'zod';
import { prefersHtml } from '../http/request-line.js';
import { readForm } from '../http/form-body.js';
import { ownReferer } from '../http/own-origin.js';
import { MINUTE_MS } from '../time.js';
import { isPostedForm, withoutSecrets, type FormFields, type FormState } from './form.js';

/**
 * What was typed into a form that came when its person was no longer signed in. It waits in their browser and nowhere else,
 * without passwords and codes, until the form's page is shown again.
 */

const NAME = 'gauge_form';
const KEPT_MS = 15 * MINUTE_MS;
/** Browsers drop cookies of more than 4096 bytes. */
const MAX_LENGTH = 3_800;

const options = (req: Request) =>
  ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/dashboard' }) as const;

const keptSchema = z.object({
  page: z.string(),
  values: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
});

/**
 * Keeps the fields of a posted form.
 * @returns the page of the form; undefined if this is no form of one of our pages
 */
export async function keepForm(req: Request, res: Response): Promise<string | undefined> {
  const page = ownReferer(req);
  if (page === undefined || !isPostedForm(req) || !prefersHtml(req)) return undefined;
  const values = withoutSecrets((await readForm(req, res)) as FormFields);
  const kept = Buffer.from(JSON.stringify({ page, values })).toString('base64url');
  if (kept.length <= MAX_LENGTH) res.cookie(NAME, kept, { ...options(req), maxAge: KEPT_MS });
  return page;
}

/** The form of this page as it was typed before, once; undefined if none was kept for it. */
export function takeForm(req: Request, res: Response, form: FormState): FormState | undefined {
  const cookie = new RegExp(`(?:^|;\\s*)${NAME}=([\\w-]+)`).exec(req.headers.cookie ?? '')?.[1];
  if (cookie === undefined || req.method !== 'GET') return undefined;
  const kept = keptSchema.safeParse(parseJson(Buffer.from(cookie, 'base64url').toString()));
  if (!kept.success || kept.data.page !== req.originalUrl) return undefined;
  res.clearCookie(NAME, options(req));
  return { ...form, values: { ...form.values, ...withoutSecrets(kept.data.values) } };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
