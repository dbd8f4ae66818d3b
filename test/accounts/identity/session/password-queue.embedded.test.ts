import { setMaxListeners } from 'node:events';
import { request } from 'node:http';
import { eq, like } from 'drizzle-orm';
import { describe, expect, it, vi } from 'vitest';
import { hashPassword } from '../../../../src/accounts/identity/password.js';
import { sessions } from '../../../../src/accounts/identity/table.js';
import { users } from '../../../../src/accounts/organizations/table.js';
import { AppError } from '../../../../src/core/errors.js';
import { operatorClient, operatorToken, unique } from '../../../support/operator.js';
import { Browser, createUser, PASSWORD } from '../../../support/accounts.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService({
  app: { signInLimits: { perAccount: 100, quickFailures: 100 } },
});

const CALLERS = 10;
/**
 * Number of hashes queued ahead of a call: enough to keep the workers busy for more than half a second, while leaving
 * room in the queue for later callers.
 */
const AHEAD = 80;
/** Value of `MAX_PARALLEL` in src/accounts/identity/password.ts. */
const RUNNING = 2;

/** Creates a controller whose signal many callers can share without a warning about listeners. */
function createSignal(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/**
 * Measures how full the queue is: adds 100 callers that give up before their passwords are hashed, and counts those
 * that were refused.
 */
async function countWaiting(): Promise<number> {
  const counted = createSignal();
  const more = Array.from({ length: 100 }, () => hashPassword('one more', counted.signal));
  counted.abort(new Error('counted'));
  const refused = (answer: PromiseSettledResult<string>) =>
    answer.status === 'rejected' && answer.reason instanceof AppError;
  return (await Promise.allSettled(more)).filter(refused).length;
}

interface Call {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
}

/** Fills the queue, lets further callers join it, and disconnects them while they wait. */
async function hangUpInTheQueue(callOf: (n: number) => Call): Promise<void> {
  const over = createSignal();
  let ahead = AHEAD;
  const count = () => void ahead--;
  for (let i = 0; i < AHEAD; i++) hashPassword('ahead', over.signal).then(count, count);
  const countCallers = async () => (await countWaiting()) - ahead + RUNNING;

  const calls = Array.from({ length: CALLERS }, (_, n) => {
    const { method, path, headers, body } = callOf(n);
    const call = request(service.url + path, { method, headers, agent: false });
    call.on('error', () => undefined);
    call.end(body);
    return call;
  });
  const soon = { timeout: 150_000, interval: 5 };
  await vi.waitUntil(async () => (await countCallers()) === CALLERS, soon);
  for (const call of calls) call.destroy();
  await vi.waitUntil(async () => (await countCallers()) === 0, soon);
  expect(ahead).toBeGreaterThan(RUNNING);
  over.abort(new Error('over'));
}

describe('callers who disconnect while waiting for a password hash', () => {
  it('cause no hash at the sign-in, and no session', async () => {
    const { id, email } = await createUser(database.db);
    await hangUpInTheQueue(() => ({
      method: 'POST',
      path: '/login',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' },
      body: new URLSearchParams({ email, password: PASSWORD }).toString(),
    }));
    expect((await new Browser(service.url).signIn(email)).status).toBe(303);
    const begun = await database.db.orm.select().from(sessions).where(eq(sessions.userId, id));
    expect(begun).toHaveLength(1);
  });

  it('cause no hash for the operator, and no user', async () => {
    const name = unique('waiting');
    const user = { name: 'Waiting', password: 'a phrase that only they know' };
    await hangUpInTheQueue((n) => ({
      method: 'PUT',
      path: `/operator/users/${name}-${n}@example.com`,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${operatorToken}` },
      body: JSON.stringify(user),
    }));
    const call = operatorClient(() => service);
    expect((await call('PUT', `/users/${name}-next@example.com`, user)).status).toBe(201);
    const created = await database.db.orm
      .select()
      .from(users)
      .where(like(users.email, `${name}-%`));
    expect(created.map(({ email }) => email)).toEqual([`${name}-next@example.com`]);
  });
});
