import { placeError, type AppError, type ErrorCode } from '../errors.js';
import type { Request, RequestHandler, Response, Router } from 'express';
import { readForm } from '../http/form-body.js';
import { prefersHtml } from '../http/request-line.js';
import { beginProblem, toAppError } from '../http/problem.js';

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
