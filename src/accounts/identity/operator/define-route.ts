import type { Request, Response } from 'express';
import { z } from 'zod';
import type { ChangeDeps } from '../../audit/audit.js';
import type { Tx } from '../../../core/db/client.js';
import { hasBody, readJsonBody } from '../../../core/http/body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import type { Source } from '../source.js';
import type { Context } from '../../../core/http/context.js';
import { nextCursorField } from '../../../core/http/fields.js';
import {
  defineRoute,
  json,
  type At,
  type Example,
  type ExampleRequest,
  type ParameterNames,
  type Route,
  type RouteDefinition,
} from '../../../core/reference/define-route.js';
import { exampleWorld } from '../../reference/example-world.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import { changeAsOperator, MAX_BODY_BYTES, readParameters, sendDeleted } from './http.js';
import { pageJson, pageSchema, readRange, type Range } from '../../../core/http/page.js';
import { emailSchema, slugSchema } from './schema.js';

interface Call<Path extends string, Body extends z.ZodType> {
  /** Slugs and addresses are checked before the body is read. */
  params: Record<ParameterNames<Path>, string>;
  input: z.output<Body>;
  /** The body as sent, for its exact numbers. */
  text: string;
  change: <T>(work: (tx: Tx, source: Source) => Promise<T>) => Promise<T>;
  req: Request;
  res: Response;
}

type OwnParts<Path extends string, Deps, Body extends z.ZodType> = Omit<
  RouteDefinition<Path, Deps>,
  'tag' | 'credential' | 'params' | 'body' | 'handler'
> & {
  answer?: (call: Call<Path, Body>, deps: Deps) => Promise<object | void>;
  /** Instead of `answer`. */
  handler?: RouteDefinition<Path, Deps>['handler'];
  body?: Body;
  /** A missing body is read as an empty object. */
  isBodyOptional?: boolean;
  /** Schemas of the body's other formats, by media type. */
  otherFormats?: Record<string, z.ZodType>;
  maxBytes?: number;
};

export function operatorRoute<
  Path extends string,
  Deps extends ChangeDeps = Context,
  Body extends z.ZodType = z.ZodUndefined,
>({
  answer,
  body,
  isBodyOptional = false,
  otherFormats,
  maxBytes = MAX_BODY_BYTES,
  ...own
}: OwnParts<Path, Deps, Body>): Route<Deps> {
  const names = [...own.at.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as ParameterName);
  return defineRoute<Path, Deps>({
    handler: (deps) => async (req: Request, res: Response) => {
      const params = readParameters(req) as Record<ParameterNames<Path>, string>;
      const hasNone = !body || (isBodyOptional && !hasBody(req));
      const sent = hasNone ? undefined : await readJsonBody(req, res, maxBytes);
      const input = body && parseExactly(body, sent ? sent.value : {});
      const change: Call<Path, Body>['change'] = (work) => changeAsOperator(deps, req, res, work);
      const result = await answer!(
        { params, input: input as z.output<Body>, text: sent?.text ?? '', change, req, res },
        deps,
      );
      if (!result) return sendDeleted(res);
      const status = res.statusCode === 201 ? 201 : Number(Object.keys(own.responses)[0]);
      sendJson(res, status, toJson(result));
    },
    ...own,
    tag: 'Operator',
    credential: 'operator',
    ...(body
      ? {
          body: {
            schema: body,
            maxBytes,
            ...(isBodyOptional ? { isOptional: true } : {}),
            ...(otherFormats ? { others: otherFormats } : {}),
          },
        }
      : {}),
    ...(names.length === 0
      ? {}
      : { params: z.object(Object.fromEntries(names.map((name) => [name, parameters[name].schema]))) }),
    moreExamples: (good) => [
      ...names.flatMap((name) => {
        const { complaint } = parameters[name];
        return complaint === undefined ? [] : [badParameterExample(name, complaint, good)];
      }),
      ...(own.query && 'limit' in own.query.shape ? [badLimitExample(good)] : []),
    ],
  });
}

const slugComplaint = 'must be 1 to 64 of a-z, 0-9, -, _ and ., beginning and ending with a letter or digit';

const parameters = {
  slug: {
    schema: slugSchema.describe('The slug of the resource.'),
    complaint: slugComplaint,
  },
  productSlug: {
    schema: slugSchema.describe('The slug of the product.'),
    complaint: slugComplaint,
  },
  email: {
    schema: emailSchema.describe(
      "The User's e-mail address, percent-encoded. Case and surrounding spaces are ignored.",
    ),
    complaint: 'must be an e-mail address',
  },
  grantKey: {
    schema: z.string().meta({ description: 'The key of the credit grant, percent-encoded.' }),
    complaint: undefined,
  },
  // Answers a malformed id like an unknown one.
  id: { schema: z.uuid().describe('Its id.'), complaint: undefined },
};
type ParameterName = keyof typeof parameters;

function badParameterExample(name: ParameterName, complaint: string, request: ExampleRequest): Example {
  return problemExample('invalid_request', {
    name: `bad${name[0]!.toUpperCase()}${name.slice(1)}`,
    summary: `An invalid ${name}`,
    detail: `The path parameter ${name} ${complaint}.`,
    request: { ...request, params: { ...request.params, [name]: 'Not One' } },
  });
}

function badLimitExample(request: ExampleRequest): Example {
  return problemExample('invalid_request', {
    name: 'badLimit',
    summary: 'A page of more than 500',
    detail: 'The query parameter limit must be a whole number from 1 to 500.',
    request: { ...request, query: { limit: '501' } },
  });
}

export function listParts(name: string, schema: z.ZodType, order: string) {
  const listSchema = z.object({
    [name]: z.array(schema).describe(order),
    nextCursor: nextCursorField,
  });
  return {
    query: pageSchema,
    responses: { 200: json('One page.', listSchema) },
  };
}

const rowKeys = {
  slug: slugSchema,
  productSlug: slugSchema,
  organization: slugSchema,
  email: emailSchema,
  id: z.uuid(),
};

/** A list of `name`, in the order of the rows' keys. Ids are listed newest first. */
export const listRoute = <
  Path extends string,
  Key extends keyof typeof rowKeys,
  Row extends Record<Key, string>,
>(
  name: string,
  schema: z.ZodType,
  key: Key,
  {
    read,
    present,
    ...own
  }: {
    at: At<Path>;
    operationId: string;
    /** Returns one row more than the limit if there is a next page. */
    read: (deps: Context, range: Range, params: Call<Path, z.ZodType>['params']) => Promise<Row[]>;
    present: (row: Row, deps: Context) => object;
  },
): Route<Context> =>
  operatorRoute({
    ...own,
    ...listParts(name, schema, key === 'id' ? 'Newest first.' : `Ordered by \`${key}\`.`),
    async answer({ params, req }, deps) {
      const range = readRange(req, rowKeys[key]);
      const rows = await read(deps, range, params);
      return pageJson(name, {
        rows,
        limit: range.limit,
        keyOf: (row) => row[key],
        present: (row) => present(row, deps),
      });
    },
  });

export const putResponses = (schema: z.ZodType) => ({
  200: json('Updated, or already in the declared state.', schema),
  201: json('Created.', schema),
});

export const deletedResponses = { 204: { description: 'Deleted.' } };

export const { now, createdAt } = exampleWorld;
