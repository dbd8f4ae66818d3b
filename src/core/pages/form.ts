import type { Request, RequestHandler, Response, Router } from 'express';
import type { z } from 'zod';
import { placeError, AppError, type ErrorCode } from '../errors.js';
import { readForm } from '../http/body.js';
import { clockOf, prefersHtml, ownReferer } from '../http/request.js';
import { beginProblem, toAppError } from '../http/problem.js';
import { parseInput, readDay } from '../http/validate.js';
import { formatTime } from './format.js';

/** A repeated name, as with check boxes, has a list of values. */
export type FormFields = Record<string, string | string[]>;

export interface FormState {
  values: FormFields;
  errors: Record<string, string>;
  problem: string | undefined;
}

export const newForm = (values: FormFields = {}): FormState => ({ values, errors: {}, problem: undefined });

/** @param values of a form that nobody has filled in yet */
export const startForm = (form: FormState, values: FormFields): FormState =>
  Object.keys(form.values).length > 0 ? form : { ...form, values };

/** Any other error is shown on an error page. */
const formCodes = new Set<ErrorCode>([
  'invalid_request',
  'not_found',
  'not_signed_in',
  'rate_limited',
  'key_not_active',
  'key_already_rotated',
]);

/** A request without a body does not count, because it may be an API call. */
export const isPostedForm = (req: Request): boolean =>
  req.is('application/x-www-form-urlencoded') === 'application/x-www-form-urlencoded';

export function onlyPages(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (prefersHtml(req)) next();
  else next('route');
}

/** All other requests fall through to the JSON route at the same URL. */
export function onlyForms(req: Request, _res: Response, next: (word?: 'route') => void): void {
  if (isPostedForm(req) && prefersHtml(req)) next();
  else next('route');
}

interface FormRoute {
  act: (req: Request, res: Response, fields: FormFields) => Promise<void>;
  /** The status is already set and `res.locals.error` holds the error. */
  show: (req: Request, res: Response, form: FormState) => Promise<void>;
  codes?: ReadonlySet<ErrorCode>;
}

export function formRoute({ act, show, codes }: FormRoute): RequestHandler {
  return async (req, res) => {
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

type GuardedForm = FormRoute & { before?: RequestHandler[] };

export function postForm(router: Router, path: string, { before = [], ...route }: GuardedForm): void {
  router.post(path, ...before, formRoute(route));
}

interface FormPage extends GuardedForm {
  /** A JSON route has the same address. */
  hasJson?: boolean;
  values?: FormFields;
}

export function addForm(
  router: Router,
  path: string,
  { before = [], hasJson, values, ...form }: FormPage,
): void {
  router.get(path, ...(hasJson ? [onlyPages] : []), ...before, (req, res) =>
    form.show(req, res, newForm(values)),
  );
  postForm(router, path, { ...form, before: hasJson ? [onlyForms, ...before] : before });
}

/** `detail` completes a sentence that begins with the field's name: `must not be blank`. */
export const fieldError = (name: string, detail: string): AppError =>
  placeError('invalid_request', `/${name}`, detail);

/** Checks a form's first and last day. */
export function requireDayOrder({ from, to }: { from?: string | undefined; to?: string | undefined }): void {
  if (from && to && to < from) throw fieldError('to', 'must not be before the first day');
}

/** Undefined if the field is missing or empty. */
export function textField(fields: FormFields, name: string): string | undefined {
  const value = fields[name];
  const text = Array.isArray(value) ? value[0] : value;
  return text === undefined || text === '' ? undefined : text;
}

/**
 * The value would be ignored.
 * @param choice what to do instead, within a sentence: `choose the date`
 */
export function refuseIgnored(fields: FormFields, name: string, isChosen: boolean, choice: string): void {
  if (!isChosen && textField(fields, name)?.trim())
    throw fieldError(name, `is filled in, but another option is selected: ${choice}, or clear this field`);
}

export const listField = (fields: FormFields, name: string): string[] => [fields[name] ?? []].flat();

/** Never put back into a form. */
const secretFields = /password|code|secret/i;

export const withoutSecrets = (fields: FormFields): FormFields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !secretFields.test(name)));

export function toFormState(fields: FormFields, error: AppError): FormState {
  const values = withoutSecrets(fields);
  const errors: Record<string, string> = {};
  for (const { pointer, detail } of error.errors ?? []) {
    const parts = pointer.split('/').slice(1);
    // The field of a row has a name like `limits.0.quantity`.
    const isField = (_: string, i: number) => parts.slice(0, i + 1).join('.') in fields;
    const own = Math.max(1, parts.findLastIndex(isField) + 1);
    const [name, rest] = [parts.slice(0, own).join('.'), parts.slice(own)];
    errors[name] ??= toSentence(rest.length === 0 ? detail : `“${rest.join('/')}” ${detail}`);
  }
  const isExplained = Object.keys(errors).some((name) => name !== '');
  return { values, errors, problem: isExplained ? undefined : error.message };
}

const instant = /\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z/g;

/** The sentence appears beside the field's label, so `is required` becomes `Required.` */
const toSentence = (detail: string): string => {
  const predicate = detail.replace(/^is /, '');
  const text = (predicate.charAt(0).toUpperCase() + predicate.slice(1)).replace(instant, (time) =>
    formatTime(new Date(time)),
  );
  return /[.!?]$/.test(text) ? text : `${text}.`;
};

export function renewForm(form: FormState, id: string): FormState {
  const { id: tooOld, ...errors } = form.errors;
  if (tooOld === undefined) return form;
  return {
    values: { ...form.values, id },
    errors,
    problem: 'This form expired and was renewed. Nothing was created. Please submit it again.',
  };
}

const dayNames = new Set(['date', 'from', 'to']);

/** Empty fields count as missing. Days may be typed as pages write them. */
export function readQuery(req: Request): FormFields {
  const given = Object.entries(req.query as FormFields).filter(([, value]) => value !== '');
  return Object.fromEntries(
    given.map(([name, value]) => [
      name,
      dayNames.has(name) && typeof value === 'string' ? readDay(value, clockOf(req).now()) : value,
    ]),
  );
}

export function requireOnce(query: object): void {
  const repeated = Object.entries(query).find(([, value]) => Array.isArray(value));
  if (repeated) throw fieldError(repeated[0], 'must appear only once');
}

export function parseQueryForm<T extends z.ZodType>(schema: T, query: FormFields): z.output<T> {
  requireOnce(query);
  return parseInput(schema, query);
}

/** Sets the error's status and returns the form with the error. */
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

/** Input kept during a new sign-in, without passwords and codes. Its page restores it once, in the same browser. */
export interface KeptForm {
  page: string;
  values: FormFields;
}

/** Undefined if the form is not on one of our pages. */
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

/** Undefined if there is no input or no form. Forms on one page must not share field names. */
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
  // A cleared check box is missing from the input and must stay cleared.
  return { ...form, values: isSent ? values : { ...form.values, ...values } };
}
