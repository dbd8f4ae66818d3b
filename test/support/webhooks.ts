import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eq } from 'drizzle-orm';
import { byService } from '../../src/accounts/audit/audit.js';
import type { Context } from '../../src/core/http/context.js';
import { webhookAttempts, webhookDeliveries } from '../../src/accounts/webhooks/table.js';
import type { MemberActor } from '../../src/accounts/identity/session/authority.js';
import { createChat } from '../../src/accounts/webhooks/chat.js';
import { createEndpoint, type EndpointInput } from '../../src/accounts/webhooks/endpoints.js';
import { webhookTypes } from '../../src/products.js';

export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  atMs: number;
}

/** Starts a server that records the webhooks it receives. @param answer responds with 204 by default */
export async function startReceiver(
  answer: (req: IncomingMessage, res: ServerResponse, received: Received) => void = (_req, res) =>
    void res.writeHead(204).end(),
) {
  const received: Received[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const one = { headers: req.headers, body: Buffer.concat(chunks).toString(), atMs: performance.now() };
      received.push(one);
      answer(req, res, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Verifies a message according to the text of the Standard Webhooks specification, without using its library.
 * @throws Error that describes the problem
 */
export function verifyBySpecification(
  secret: string,
  { headers, body }: Pick<Received, 'headers' | 'body'>,
  nowMs: number,
): { type: string; timestamp: string; data: Record<string, unknown> } {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string')
    throw new Error('a header is missing');
  if (!/^\d+$/.test(timestamp) || Math.abs(nowMs / 1000 - Number(timestamp)) > 300)
    throw new Error('too old');
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest();
  const isOurs = signatures.split(' ').some((signature) => {
    const [version, value = ''] = signature.split(',');
    const given = Buffer.from(value, 'base64');
    return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isOurs) throw new Error('no signature fits');
  return JSON.parse(body) as ReturnType<typeof verifyBySpecification>;
}

/** Acts as the service itself, so no session is needed. */
export const actorOf = (orgId: string): MemberActor => ({ orgId, userId: 'system', by: byService });

export const chat = createChat(webhookTypes, 'https://gauge.example');

/** @returns the endpoint's secret; empty for a chat */
export async function listen(
  deps: Pick<Context, 'db' | 'clock' | 'config'>,
  orgId: string,
  input: Partial<EndpointInput> & { url: string },
) {
  const { endpoint, secret } = await createEndpoint(deps, actorOf(orgId), {
    format: 'standard',
    types: ['api_key.created'],
    livemode: true,
    isEnabled: true,
    ...input,
  });
  return { endpoint, secret: secret ?? '' };
}

export const deliveriesOf = ({ db }: Pick<Context, 'db'>, orgId: string) =>
  db.orm.select().from(webhookDeliveries).where(eq(webhookDeliveries.orgId, orgId));

export const attemptsOf = ({ db }: Pick<Context, 'db'>, orgId: string) =>
  db.orm
    .select()
    .from(webhookAttempts)
    .where(eq(webhookAttempts.orgId, orgId))
    .orderBy(webhookAttempts.messageId, webhookAttempts.attempt);
