import { expect } from 'vitest';
import { Beginning, Excerpt, Generated } from '../../../src/core/reference/define-route.js';
import { responseHeaders, type ResponseHeader } from '../../../src/core/reference/headers.js';
import { headersOf, isAlwaysSent, schemaOf } from '../../../src/core/reference/operation.js';
import type { DescribedRoute } from '../../../src/core/reference/described.js';
import type { Answer } from './send-example.js';

const uuidOf = (version: 4 | 7) =>
  new RegExp(`^[0-9a-f]{8}-[0-9a-f]{4}-${version}[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`);
const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3})?Z$/;
const secret = /^org_(live|test)_[0-9A-Za-z]{32}$/;

/** Lists where an actual response differs from the documented one, as `place: …`. */
export function differences(actual: unknown, documented: unknown, place = 'body'): string[] {
  if (documented instanceof Generated)
    return isAlike(actual, documented) ? [] : [differ(actual, documented, place)];
  if (documented instanceof Excerpt)
    return Object.entries(documented.shown).flatMap(([field, value]) =>
      differences((actual as Record<string, unknown>)[field], value, `${place}/${field}`),
    );
  if (documented instanceof Beginning)
    return documented.shown.flatMap((item, i) =>
      differences((actual as unknown[])[i], item, `${place}/${i}`),
    );
  if (Array.isArray(documented)) {
    if (!Array.isArray(actual) || actual.length !== documented.length)
      return [differ(actual, documented, place)];
    return documented.flatMap((item, i) => differences(actual[i], item, `${place}/${i}`));
  }
  if (typeof documented === 'object' && documented !== null) {
    if (typeof actual !== 'object' || actual === null) return [differ(actual, documented, place)];
    const fields = new Set([...Object.keys(documented), ...Object.keys(actual)]);
    return [...fields].flatMap((field) =>
      differences(
        (actual as Record<string, unknown>)[field],
        (documented as Record<string, unknown>)[field],
        `${place}/${field}`,
      ),
    );
  }
  return actual === documented ? [] : [differ(actual, documented, place)];
}

/** A generated value matches any value of the same kind. */
function isAlike(actual: unknown, { shown }: Generated): boolean {
  if (typeof actual !== 'string' || actual === '') return false;
  const kind = [uuidOf(4), uuidOf(7), time, secret].find((pattern) => pattern.test(shown));
  return kind === undefined || kind.test(actual);
}

const differ = (actual: unknown, documented: unknown, place: string) =>
  `${place}: ${JSON.stringify(actual)} instead of ${JSON.stringify(documented)}`;

/**
 * Expects every documented header that is always sent, and no known header that is not documented for this response.
 */
export function expectDocumentedHeaders(route: DescribedRoute, { status, headers }: Answer): void {
  const documented = headersOf(route, status);
  const isSent = (name: string) => headers[name.toLowerCase()] !== undefined;
  for (const name of documented)
    if (isAlwaysSent(name, status)) expect(isSent(name), `${name} is missing`).toBe(true);
  const undocumented = (Object.keys(responseHeaders) as ResponseHeader[]).filter(
    (name) => isSent(name) && !documented.includes(name),
  );
  expect(undocumented).toEqual([]);
}

/** Expects that the body matches the schema for its status and media type and has no unknown field. */
export function expectDocumentedSchema(route: DescribedRoute, { status, headers, text }: Answer): void {
  // The short text sent with a redirect is not documented.
  if (text === '' || (status >= 300 && status < 400)) return;
  const mediaType = String(headers['content-type']).split(';', 1)[0]!;
  const schema = schemaOf(route, status, mediaType);
  expect(schema, `${status} ${mediaType} is not documented`).toBeDefined();
  if (schema === undefined || schema === null) return;
  const value: unknown = JSON.parse(text);
  expect(schema.parse(value)).toEqual(value);
}
