import type { Request } from 'express';
import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { hasBody } from '../../core/http/body.js';
import { cutPage } from '../../core/http/page.js';
import { readPathId } from '../../core/http/request.js';
import {
  defineRoute,
  type Example,
  type ExampleRequest,
  type Route,
  type RouteDefinition,
} from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { decodeCursor, encodeCursor } from '../../core/ids.js';
import { MAX_BODY_BYTES, readInput } from '../identity/operator/http.js';
import { memberActor, type MemberActor } from '../identity/session/authority.js';
import { requireRole } from '../identity/session/session.js';
import { managingRoles } from '../organizations/table.js';
import { noDelivery, type EndpointDeps } from './endpoints.js';
import {
  findDelivery,
  listAttempts,
  listDeliveries,
  readData,
  type DeliveryKey,
  type DeliveryRow,
} from './queries.js';
import type { WebhookSchemas } from './schema.js';
import { bodyOf } from './send.js';

/** A URL may contain the receiver's credential. */
export const mayManage = requireRole(...managingRoles);

interface Call<Body extends z.ZodType> {
  actor: MemberActor;
  /** Empty if the path does not name one. */
  id: string;
  messageId: string;
  input: z.output<Body>;
  query: Request['query'];
}

interface OwnParts<Body extends z.ZodType> extends Omit<
  RouteDefinition<string, EndpointDeps>,
  'tag' | 'credential' | 'params' | 'body' | 'handler'
> {
  body?: Body;
  isBodyOptional?: boolean;
  answer: (call: Call<Body>, deps: EndpointDeps) => Promise<object>;
}

export function webhookRoute<Body extends z.ZodType = z.ZodUndefined>({
  answer,
  body: schema,
  isBodyOptional: isOptional = false,
  ...own
}: OwnParts<Body>): Route<EndpointDeps> {
  const names = [...own.at.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as keyof typeof parameters);
  return defineRoute({
    ...own,
    ...(schema && { body: { schema, isOptional, maxBytes: MAX_BODY_BYTES } }),
    tag: 'Webhooks',
    credential: 'session',
    ...(names.length === 0
      ? {}
      : { params: z.object(Object.fromEntries(names.map((name) => [name, parameters[name].schema]))) }),
    moreExamples: (request) => [
      ...names.flatMap((name) =>
        parameters[name].unknown.map((unknown) => unknownExample(name, unknown, request)),
      ),
      problemExample('forbidden_role', {
        summary: 'A member may not manage webhooks',
        detail: 'Only owners and admins can do this. Your role in Acme is member.',
        request: { ...request, credential: 'memberSession' },
      }),
    ],
    handler: (deps) => [
      mayManage,
      async (req, res) => {
        const id = names.includes('id') ? readEndpointId(req) : '';
        const messageId = names.includes('messageId') ? readMessageId(req) : '';
        const isSent = schema && (!isOptional || hasBody(req));
        const input = isSent ? await readInput(req, res, schema) : schema?.parse({});
        const call = { actor: memberActor(req, res), id, messageId, input: input!, query: req.query };
        res.status(Number(Object.keys(own.responses)[0])).json(await answer(call, deps));
      },
    ],
  });
}

const { webhooks, unknownId } = exampleWorld;
const noEndpoint = 'There is no such endpoint.';

const parameters = {
  id: {
    schema: z.string().meta({ description: 'The id of the endpoint.' }),
    unknown: [
      { id: unknownId, name: 'notFound', summary: 'No such endpoint', detail: noEndpoint },
      {
        id: webhooks.otherId,
        name: 'endpointOfAnother',
        summary: "Another Organization's endpoint",
        detail: noEndpoint,
      },
    ],
  },
  messageId: {
    schema: z.string().meta({ description: 'The `webhook-id`.' }),
    unknown: [
      {
        id: unknownId,
        name: 'noSuchDelivery',
        summary: 'No such delivery',
        detail: 'There is no such delivery.',
      },
    ],
  },
};

const unknownExample = (
  parameter: string,
  { id, ...rest }: { id: string; name: string; summary: string; detail: string },
  request: ExampleRequest,
): Example =>
  problemExample('not_found', {
    ...rest,
    request: { ...request, params: { ...request.params, [parameter]: id } },
  });

export const readEndpointId = (req: Request): string => readPathId(req, 'id', 'endpoint');

export const readMessageId = (req: Request): string => readPathId(req, 'messageId', 'delivery');

const toDeliveryJson = ({ status, nextAttemptAt, createdAt, ...row }: DeliveryRow) => ({
  ...row,
  status,
  nextAttemptAt: status === 'waiting' ? nextAttemptAt : null,
  createdAt,
});

const PAGE_SIZE = 50;

export async function readDeliveries(
  orm: Orm,
  where: Omit<DeliveryKey, 'messageId'>,
  { limit, cursor, ...filter }: z.output<WebhookSchemas['listDeliveriesSchema']>,
) {
  const before = cursor === undefined ? undefined : decodeCursor(cursor);
  const size = Number(limit ?? PAGE_SIZE);
  const rows = await listDeliveries(orm, where, { ...filter, before, limit: size + 1 });
  const { page, nextCursor } = cutPage(rows, size, ({ messageId }) => encodeCursor(messageId));
  return { deliveries: page.map(toDeliveryJson), nextCursor };
}

const SHOWN_ATTEMPTS = 50;

export async function readDeliveryDetails(orm: Orm, key: DeliveryKey) {
  const row = await findDelivery(orm, key);
  if (!row) throw noDelivery();
  return {
    ...toDeliveryJson(row),
    body: bodyOf(row.type, row.createdAt, (await readData(orm, key))!),
    attemptLog: await listAttempts(orm, key, SHOWN_ATTEMPTS),
  };
}
