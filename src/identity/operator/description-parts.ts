import { z } from 'zod';
import type { ErrorCode } from '../../core/errors.js';
import {
  generated,
  type Example,
  type ExampleRequest,
  type RouteDescription,
} from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import {
  bodyProblemExamples,
  bodyProblems,
  operatorProblemExamples,
  operatorProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
} from '../../core/reference/problem-examples.js';
import { MAX_BODY_BYTES } from './http.js';
import { emailSchema, pageSchema, slugSchema } from './schema.js';

type OwnParts = Omit<RouteDescription, 'tag' | 'security' | 'errors' | 'params'> & {
  errors?: ErrorCode[];
  /** A request that succeeds, from which the refused ones are made. */
  good: Omit<ExampleRequest, 'credential'>;
};

/** Completes a description with what every route for the operator has. */
export function describeOperatorRoute({ good, errors = [], ...own }: OwnParts): RouteDescription {
  const names = [...own.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as ParameterName);
  const request: ExampleRequest = { credential: 'operator', ...good };
  const hasInput = names.length > 0 || own.query !== undefined || own.body !== undefined;
  return {
    ...own,
    tag: 'Operator',
    security: 'operator',
    ...(names.length === 0
      ? {}
      : { params: z.object(Object.fromEntries(names.map((name) => [name, parameters[name].schema]))) }),
    errors: [
      ...(hasInput ? (['invalid_request'] as const) : []),
      ...(own.body ? bodyProblems : []),
      ...operatorProblems,
      ...errors,
      ...serviceProblems,
    ],
    examples: [
      ...own.examples,
      ...names.map((name) => badParameterExample(name, request)),
      ...(own.query ? [badLimitExample(request)] : []),
      ...(own.body ? bodyProblemExamples(request, MAX_BODY_BYTES) : []),
      ...operatorProblemExamples(good),
      ...serviceProblemExamples(request),
    ],
  };
}

const slugComplaint = 'must be 1 to 64 of a-z and 0-9, with -, _ or . inside only';

const parameters = {
  slug: {
    schema: slugSchema.describe('The slug that names it.'),
    complaint: slugComplaint,
  },
  productSlug: {
    schema: slugSchema.describe('The slug of the product.'),
    complaint: slugComplaint,
  },
  email: {
    schema: emailSchema.describe(
      'The address of the User, percent-encoded. Spaces around it and capitals make no difference.',
    ),
    complaint: 'must be an e-mail address',
  },
};
type ParameterName = keyof typeof parameters;

function badParameterExample(name: ParameterName, request: ExampleRequest): Example {
  return problemExample('invalid_request', {
    name: `bad${name[0]!.toUpperCase()}${name.slice(1)}`,
    summary: `A ${name} that cannot be one`,
    detail: `The path parameter ${name} ${parameters[name].complaint}.`,
    request: { ...request, params: { ...request.params, [name]: 'Not One' } },
  });
}

function badLimitExample(request: ExampleRequest): Example {
  return problemExample('invalid_request', {
    name: 'badLimit',
    summary: 'A limit that is no number',
    detail: 'The query parameter limit: must be a whole number.',
    request: { ...request, query: { limit: 'ten' } },
  });
}

/** The parts of a list's description: ordered by a unique key, in pages. */
export function listParts(name: string, schema: z.ZodType, order: string) {
  const listSchema = z.object({
    [name]: z.array(schema).describe(order),
    nextCursor: z
      .string()
      .nullable()
      .describe('Send it as `cursor` for the next page; `null` on the last one.'),
  });
  return {
    query: pageSchema,
    responses: { 200: { description: 'A page of them.', content: { 'application/json': listSchema } } },
  };
}

/** 201 for what was made now, 200 for what was there. */
export const putResponses = (schema: z.ZodType) => ({
  200: { description: 'It was there; it is as declared now.', content: { 'application/json': schema } },
  201: { description: 'It was made.', content: { 'application/json': schema } },
});

export const deletedResponses = { 204: { description: 'It is gone.' } };

/** A list's cursor is the key of the last row seen. */
export const cursorOf = (key: string): string => Buffer.from(key).toString('base64url');

export function notFoundExample(detail: string, request: Omit<ExampleRequest, 'credential'>): Example {
  return problemExample('not_found', {
    summary: 'There is no such thing',
    detail,
    request: { credential: 'operator', ...request },
  });
}

export const madeId = generated('019c13c7-9a00-7000-8000-4b1d0a6e2f90');
export const { now, createdAt } = exampleWorld;
