import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { OpenApiDocument } from '../../src/core/reference/document.js';
import type { FuzzRequest } from './requests.js';

export interface FuzzAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  ms: number;
}

/** The time within which a response must be complete. */
export const MAX_ANSWER_MS = 5_000;
/** Content that must never leave the process: stack traces, internal paths, SQL, hashed secrets. */
const leaks =
  /\bat \S+ \([^)]*:\d+\)|node_modules|\.ts:\d+|\bselect .* from |insert into |hashed_secret|\$argon2/i;

interface DocumentedResponse {
  headers?: Record<string, unknown>;
  content?: Record<string, unknown>;
}
type DocumentedOperation = { responses: Record<string, DocumentedResponse> };

/** Checks responses against the OpenAPI document and against rules that hold for every response. */
export function createChecker(document: OpenApiDocument) {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  ajv.addSchema(document, 'document');
  const compiled = new Map<string, ValidateFunction>();
  const required = Object.entries(document.components?.headers ?? {})
    .filter(([, header]) => (header as { required?: boolean }).required)
    .map(([name]) => name);

  function validatorOf(...path: string[]): ValidateFunction {
    const pointer = path.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')));
    const ref = `document#/${pointer.join('/')}`;
    let validate = compiled.get(ref);
    if (!validate) compiled.set(ref, (validate = ajv.compile({ $ref: ref })));
    return validate;
  }

  return function findFault(
    { operation: { path, method }, path: sent }: FuzzRequest,
    answer: FuzzAnswer,
  ): string | undefined {
    const { status, headers, body, ms } = answer;
    if (ms > MAX_ANSWER_MS) return `took ${Math.round(ms)} ms`;
    if (status >= 500 && status !== 503) return `answered ${status}`;
    if (leaks.test(body) && !isDocument(path)) return 'tells what should not leave the process';
    if (headers['x-request-id'] === undefined) return 'has no X-Request-Id';
    const type = String(headers['content-type'] ?? '').split(';', 1)[0]!;
    const operation = (document.paths![path] as Record<string, unknown>)[method] as DocumentedOperation;
    const response = operation.responses[status];
    if (!response) {
      // The request was refused because of its URL or headers, before it reached a route.
      const isEarly = status === 431 || (status === 400 && isOddAddress(sent));
      return isEarly && type === 'application/problem+json'
        ? undefined
        : `answered ${status}, which is not documented`;
    }
    const missing = required.find(
      (name) => response.headers?.[name] && headers[name.toLowerCase()] === undefined,
    );
    if (missing !== undefined) return `answered ${status} without ${missing}`;
    if (body === '' || (status >= 300 && status < 400)) return undefined;
    if (!response.content?.[type]) return `answered with ${type}, which is not documented for ${status}`;
    if (!type.includes('json')) return undefined;
    const value = parse(body);
    if (value === undefined) return 'answered with JSON that is none';
    const isOwn = type !== 'application/problem+json' || !isOddAddress(sent);
    const validate = validatorOf(
      'paths',
      path,
      method,
      'responses',
      String(status),
      'content',
      type,
      'schema',
    );
    if (isOwn && !validate(value))
      return `does not fit the document: ${ajv.errorsText(validate.errors, { separator: '; ' }).slice(0, 500)}`;
    return undefined;
  };
}

/** The OpenAPI document and the documentation pages mention paths and SQL statements in prose. */
const isDocument = (path: string): boolean => path === '/openapi.json' || path.startsWith('/docs');

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

function isOddAddress(path: string): boolean {
  try {
    return decodeURIComponent(path).includes('\0');
  } catch {
    return true;
  }
}
