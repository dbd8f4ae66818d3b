import { z } from 'zod';
import { problemExample } from './problem-examples.js';
import {
  excerpt,
  generated,
  type Example,
  type ExampleRequest,
  type RouteDescription,
} from './description.js';

const limitExample = (request: ExampleRequest): Example =>
  problemExample('rate_limited', {
    summary: 'More requests for documents in a minute than an address may make',
    circumstance: 'limit_used_up',
    before: [request],
    detail: generated('Your address may make 300 requests for documents a minute. Try again in 42 s.'),
    request,
  });

export const documentationDescriptions: RouteDescription[] = [
  {
    method: 'get',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    tag: 'Service',
    summary: 'This document',
    description:
      'OpenAPI 3.1. It changes only with the version of the service: keep the `ETag` and ask with `If-None-Match`.',
    security: 'none',
    isLimited: true,
    headers: z.object({
      'If-None-Match': z.string().optional().meta({ description: 'The `ETag` of the copy at hand.' }),
    }),
    responses: {
      200: {
        description: 'The document.',
        content: { 'application/json': z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApi' }) },
        headers: ['ETag'],
      },
      304: { description: 'The copy at hand is still right.', headers: ['ETag'] },
    },
    errors: ['rate_limited'],
    examples: [
      {
        name: 'document',
        summary: 'The beginning',
        request: { credential: 'none' },
        response: { status: 200, body: excerpt({ openapi: '3.1.0' }) },
      },
      {
        name: 'notModified',
        summary: 'Nothing has changed',
        request: { credential: 'none', headers: { 'if-none-match': '*' } },
        response: { status: 304 },
      },
      limitExample({ credential: 'none' }),
    ],
  },
  {
    method: 'get',
    path: '/docs',
    operationId: 'getReference',
    tag: 'Service',
    summary: 'This document as a page',
    description:
      'Shows the document and lets requests be tried. Works offline; a key that is entered stays in the memory of the tab.',
    security: 'none',
    isLimited: true,
    responses: { 200: { description: 'The page.', content: { 'text/html': null } } },
    errors: ['rate_limited'],
    examples: [
      {
        name: 'page',
        summary: 'Its title',
        request: { credential: 'none' },
        response: { status: 200, body: '<title>Gauge API reference</title>' },
      },
      limitExample({ credential: 'none' }),
    ],
  },
  {
    method: 'get',
    path: '/docs/errors',
    operationId: 'getErrorCodes',
    tag: 'Service',
    summary: 'All error codes',
    description:
      'What each `code` means and what to do about it. The `type` of a problem leads to its place here.',
    security: 'none',
    isLimited: true,
    responses: { 200: { description: 'The page.', content: { 'text/html': null } } },
    errors: ['rate_limited'],
    examples: [
      {
        name: 'page',
        summary: 'The place of a code',
        request: { credential: 'none' },
        response: { status: 200, body: '<section class="error" id="rate_limited">' },
      },
      limitExample({ credential: 'none' }),
    ],
  },
  {
    method: 'get',
    path: '/docs/assets/{version}/{file}',
    operationId: 'getReferenceFile',
    tag: 'Service',
    summary: 'The files of the pages',
    description:
      'Scripts and styles of `/docs`. The version changes with their content, so they may be cached for ever.',
    security: 'none',
    isLimited: true,
    params: z.object({
      version: z.string().meta({ description: 'As the pages name it.' }),
      file: z.string().meta({ description: 'A file name.' }),
    }),
    responses: {
      200: { description: 'The file.', content: { 'text/javascript': null, 'text/css': null } },
    },
    errors: ['not_found', 'rate_limited'],
    examples: [
      {
        name: 'script',
        summary: 'The script of the page',
        request: { credential: 'none', params: { version: '0', file: 'docs.js' } },
        response: { status: 200, body: 'validatorUrl: null' },
      },
      problemExample('not_found', {
        summary: 'No such file',
        detail: 'There is nothing at this address.',
        request: { credential: 'none', params: { version: '0', file: 'other.js' } },
      }),
      limitExample({ credential: 'none', params: { version: '0', file: 'docs.js' } }),
    ],
  },
];
