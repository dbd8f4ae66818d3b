import type { Request, RequestHandler, Response, Router } from 'express';
import type { z } from 'zod';
import { placeError, AppError, type ErrorCode } from '../errors.js';
import { readForm } from '../http/body.js';
import { prefersHtml, ownReferer } from '../http/request.js';
import { beginProblem, toAppError } from '../http/problem.js';
import { parseInput } from '../http/validate.js';

/** The fields of a posted form. Where a name repeats (check boxes), its values are a list. */
export type FormFields = Record<string, string | string[]>;

/** What a form shows: what was typed, and what is wrong with it. */
export interface FormState {
  values: FormFields;
  /** By field name: what is wrong with it, as a sentence. */
  errors: Record<string, string>;
  /** What is wrong with the whole, where no field is to blame. */
  problem: string | undefined;
}

/** A form that has not been filled in yet. */
export const newForm = (values: FormFields = {}): FormState => ({ values, errors: {}, problem: undefined });

/** What a person can put right in the form itself. Everything else is an error page. */
const formCodes = new Set<ErrorCode>([
  'invalid_request',
  'not_found',
  'not_signed_in',
  'rate_limited',
  'key_not_active',
  'key_already_rotated',
]);

/** True for what a browser posts from a form. A request without a body is none: it may be a call of the API. */
export const isPostedForm = (req: Request): boolean =>
  req.is('application/x-www-form-urlencoded') === 'application/x-www-form-urlencoded';

/** Programs find nothing here: there is no JSON at this address. */
export function onlyPages(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (prefersHtml(req)) next();
  else next('route');
}

/** Lets forms of a browser through; everything else goes on to the JSON route at the same address. */
export function onlyForms(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (isPostedForm(req) && prefersHtml(req)) next();
  else next('route');
}

interface FormRoute {
  /** Does what the form asks for and answers, in most cases by sending the browser on with 303. */
  act: (req: Request, res: Response, fields: FormFields) => Promise<void>;
  /** Shows the form again. The status is set, and the error is `res.locals.error`. */
  show: (req: Request, res: Response, form: FormState) => Promise<void>;
  /** What else this form shows instead of an error page. */
  codes?: ReadonlySet<ErrorCode>;
}

/** A form's route: `act`, or the form again with what was typed and what is wrong with it. */
export function formRoute({ act, show, codes }: FormRoute): RequestHandler {
  return async (req, res) => {
    // The parser of forms makes nothing but texts and lists of texts.
    const fields = { ...((await readForm(req, res)) as FormFields) };
    try {
      await act(req, res, fields);
    } catch (thrown) {
      const error = toAppError(thrown);
      const isShown = formCodes.has(error.code) || codes?.has(error.code);
      if (res.headersSent || !isShown) throw thrown;
      beginProblem(res, error);
      await show(req, res, toFormState(fields, error));
    }
  };
}

/** A page that is one form: GET shows it, and POST carries it out. `before` stands before both. */
export function addForm(
  router: Router,
  path: string,
  { before = [], ...route }: FormRoute & { before?: RequestHandler[] },
): void {
  router.get(path, ...before, (req, res) => route.show(req, res, newForm()));
  router.post(path, ...before, formRoute(route));
}

/** Refuses a form for one of its fields. `detail` goes on where the field's name ends: `must not be blank`. */
export const fieldError = (name: string, detail: string): AppError =>
  placeError('invalid_request', `/${name}`, detail);

/** One value of a field, or undefined if the field was left out or left empty. */
export function textField(fields: FormFields, name: string): string | undefined {
  const value = fields[name];
  const text = Array.isArray(value) ? value[0] : value;
  return text === undefined || text === '' ? undefined : text;
}

/**
 * Refuses a value that belongs to a choice which is not made: it would be ignored.
 * @param choice goes on where the sentence ends: `choose the date`
 * @throws AppError invalid_request
 */
export function refuseIgnored(fields: FormFields, name: string, isChosen: boolean, choice: string): void {
  if (!isChosen && textField(fields, name)?.trim())
    throw fieldError(name, `is filled in, but another choice is made: ${choice}, or clear it`);
}

/** All values of a field with check boxes. */
export const listField = (fields: FormFields, name: string): string[] => [fields[name] ?? []].flat();

/** Never shown again, whatever was typed. */
const secretFields = /password|code|secret/i;

export const withoutSecrets = (fields: FormFields): FormFields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !secretFields.test(name)));

/** A form as it was sent, with what the error says of its fields. */
export function toFormState(fields: FormFields, error: AppError): FormState {
  const values = withoutSecrets(fields);
  const errors: Record<string, string> = {};
  for (const { pointer, detail } of error.errors ?? []) {
    const name = pointer.split('/')[1] ?? '';
    errors[name] ??= toSentence(detail);
  }
  const isExplained = Object.keys(errors).some((name) => name !== '');
  return { values, errors, problem: isExplained ? undefined : error.message };
}

const toSentence = (detail: string): string => {
  const text = detail.charAt(0).toUpperCase() + detail.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
};

/** A form that was open for too long for the id that it carries gets another one, and says so. */
export function renewForm(form: FormState, id: string): FormState {
  const { id: tooOld, ...errors } = form.errors;
  if (tooOld === undefined) return form;
  return {
    values: { ...form.values, id },
    errors,
    problem:
      'This form was open for too long and has been renewed. Nothing was created: please send it again.',
  };
}

/** The fields of a form that is sent in the address. A field that was left empty was not filled in. */
export const readQuery = (req: Request): FormFields =>
  Object.fromEntries(Object.entries(req.query as FormFields).filter(([, value]) => value !== ''));

/** @throws AppError invalid_request for a field that is given more than once */
export function requireOnce(query: object): void {
  const repeated = Object.entries(query).find(([, value]) => Array.isArray(value));
  if (repeated) throw fieldError(repeated[0], 'must be given once');
}

/** @throws AppError invalid_request for a field that does not fit or is given more than once */
export function parseQueryForm<T extends z.ZodType>(schema: T, query: FormFields): z.output<T> {
  requireOnce(query);
  return parseInput(schema, query);
}

/**
 * What a page with such a form shows: what was asked for, or the form with what is wrong beside the field and the
 * status of that.
 */
export async function tryQuery<T>(
  res: Response,
  query: FormFields,
  work: () => Promise<T>,
): Promise<{ form: FormState; result: T | undefined }> {
  try {
    return { form: newForm(query), result: await work() };
  } catch (thrown) {
    const isForField = thrown instanceof AppError && thrown.errors !== undefined;
    if (!isForField || !['invalid_request', 'not_found'].includes(thrown.code)) throw thrown;
    beginProblem(res, thrown);
    return { form: toFormState(query, thrown), result: undefined };
  }
}

/**
 * What was typed into a form that came when its person was no longer signed in, or had to prove anew who they are. It waits,
 * without passwords and codes, until the form's page is shown again to the same person in the same browser.
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

const KEPT_FORM_COOKIE = 'gauge_form';
const cookieOptions = (req: Request) =>
  ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' }) as const;

export function sendFormToken(req: Request, res: Response, token: string, maxAge: number): void {
  res.cookie(KEPT_FORM_COOKIE, token, { ...cookieOptions(req), maxAge });
}

const taken = Symbol('taken form');
type Locals = { [taken]?: (page: string) => Promise<FormFields | undefined> };

/** Lets the page that a browser with a token asks for take what was typed into its form: `take`, by the token. */
export function offerForm(
  req: Request,
  res: Response,
  take: (token: string, page: string) => Promise<FormFields | undefined>,
): void {
  const token = new RegExp(`(?:^|;\\s*)${KEPT_FORM_COOKIE}=([\\w-]{43})(?:;|$)`).exec(
    req.headers.cookie ?? '',
  )?.[1];
  if (token === undefined || req.method !== 'GET') return;
  const locals = res.locals as Locals;
  locals[taken] = async (page) => {
    const values = await take(token, page);
    if (values) res.clearCookie(KEPT_FORM_COOKIE, cookieOptions(req));
    return values;
  };
}

/**
 * The forms among what a page shows, with what the signed-in person had typed into one of them, once; undefined if nothing was
 * kept for the page. Forms of one page have no field in common.
 */
export async function takeForms(
  req: Request,
  res: Response,
  shown: object,
): Promise<Record<string, FormState> | undefined> {
  const forms = Object.entries(shown).filter((entry): entry is [string, FormState] => isForm(entry[1]));
  if (forms.length === 0) return undefined;
  const values = await (res.locals as Locals)[taken]?.(req.originalUrl);
  return values && Object.fromEntries(forms.map(([name, form]) => [name, fillIn(form, values)]));
}

const isForm = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'values' in value && 'errors' in value;

function fillIn(form: FormState, values: FormFields): FormState {
  const isSent = Object.keys(values).some((name) => name in form.values);
  // A box that was cleared is missing from what was sent, and must not come back ticked.
  return { ...form, values: isSent ? values : { ...form.values, ...values } };
}
