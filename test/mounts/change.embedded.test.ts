import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiKeys } from '../../src/accounts/api-keys/table.js';
import { sessions } from '../../src/accounts/identity/table.js';
import { createApp } from '../../src/app.js';
import type { Database } from '../../src/core/db/client.js';
import type { DescribedRoute, SentExample } from '../../src/core/reference/described.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { openLiveAccount, removeKeys } from '../markets/support/live-account.js';
import { byService, change } from '../../src/accounts/audit/audit.js';
import { endServiceKey } from '../../src/accounts/service-keys/queries.js';
import { exampleWorld } from '../openapi/support/example-rows.js';
import { useExamples } from '../openapi/support/examples.js';
import { listMountedRoutes, listPageRoutes } from '../openapi/support/mounted-routes.js';
import { exchange, type Answer } from '../openapi/support/send-example.js';
import { ordinaryNames, populate } from '../pages/populated.js';
import { countChanges } from '../support/counted-changes.js';
import { useDatabase, useServiceOn } from '../support/use.js';
import { changes, others, withdrawalsOf, type Prepared, type World } from './changes.js';

/** Runs once, just before the next transaction begins. */
let meanwhile: (() => Promise<unknown>) | undefined;

/** Wraps the database so that `meanwhile` runs between a request's checks and its change's transaction. */
function interrupted(db: Database): Database {
  const first =
    <A extends unknown[], R>(begin: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      const happens = meanwhile;
      meanwhile = undefined;
      await happens?.();
      return begin(...args);
    };
  const orm = new Proxy(db.orm, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === 'transaction') return first(target.transaction.bind(target));
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  const transaction: Database['transaction'] = async (work) => {
    await first(() => Promise.resolve())();
    return db.transaction(work);
  };
  return { ...db, orm, transaction };
}

/** True if refused by status or by a redirect to the sign-in or confirmation page. */
const isRefused = ({ status, headers }: Answer) =>
  [401, 403, 404].includes(status) ||
  (status === 303 && /^\/(login|confirm)\b/.test(String(headers.location)));

/** Recording usage checks the key in the statement itself, or the operator's token once the body is read. */
const hasTransaction = (address: string) =>
  !/\/(api|service|\{slug\})\/usage/.test(address) || address.includes('corrections');

/** Sends the request while nothing else happens, and returns true if it changed something. */
async function succeeds(prepared: Prepared, countedChanges: () => Promise<string>): Promise<boolean> {
  const before = await countedChanges();
  const { status, text } = await exchange(prepared.service.url, prepared.request);
  expect([status < 400, text.slice(0, 300)]).toEqual([true, expect.anything()]);
  return (await countedChanges()) !== before;
}

/** Pause after the first half of the body; long enough for all checks that run before the body is read. */
const HALF_SENT_MS = 150;

/** Expects that a request is refused and changes nothing if its authority is lost while it is answered. */
async function expectRefusals(
  address: string,
  prepare: () => Promise<Prepared>,
  countedChanges: () => Promise<string>,
): Promise<void> {
  let prepared = await prepare();
  for (const [n, what] of Object.keys(prepared.withdrawals).entries()) {
    if (n > 0) prepared = await prepare();
    const { service, request, withdrawals } = prepared;
    if (!hasTransaction(address) && request.body === undefined) return;
    const { operatorTokens } = service.context.config;
    const tokens = [...operatorTokens];
    let before = '';
    const withdraw = async () => {
      await withdrawals[what]!();
      before = await countedChanges();
    };
    const send = hasTransaction(address) ? sendInterrupted : sendInHalves;
    const answer = await send(prepared, withdraw).finally(() =>
      operatorTokens.splice(0, operatorTokens.length, ...tokens),
    );
    const { method, path } = request;
    expect([method, path, what, isRefused(answer), answer.status]).toEqual([
      method,
      path,
      what,
      true,
      answer.status,
    ]);
    expect(await countedChanges(), what).toBe(before);
  }
}

const sendInHalves = ({ service, request }: Prepared, withdraw: () => Promise<void>) =>
  exchange(service.url, request, async () => {
    await sleep(HALF_SENT_MS);
    await withdraw();
  });

/**
 * Withdraws the authority before the request's transaction begins. The whole body has been read by then, so this also
 * covers a withdrawal while the body is being sent.
 */
async function sendInterrupted({ service, request }: Prepared, withdraw: () => Promise<void>) {
  let isBodyRead = false;
  let received: IncomingMessage;
  service.server.once('request', (req: IncomingMessage) => (received = req));
  meanwhile = async () => {
    isBodyRead = !request.body || received.readableEnded;
    await withdraw();
  };
  const answer = await exchange(service.url, request);
  expect([request.path, meanwhile, isBodyRead]).toEqual([request.path, undefined, true]);
  return answer;
}

const addressOf = ({ method, path }: DescribedRoute) => `${method} ${path}`;
const described = (await describeService(products)).routes.filter(
  (route) => route.method !== 'get' && !others.includes(addressOf(route)),
);

describe('a form', () => {
  const database = useDatabase();
  const service = useServiceOn(() => interrupted(database.db), {
    env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' },
    app: { signInLimits: { perAddress: 10_000 }, joinLimits: { newAccounts: 1000, wrongLinks: 1000 } },
  });
  let world: World;
  let countedChanges: () => Promise<string>;

  beforeAll(async () => {
    const own = await populate(service, ordinaryNames);
    world = { db: database.db, service, own, live: await openLiveAccount(interrupted(database.db)) };
    countedChanges = await countChanges(database.db);
  });
  afterAll(async () => {
    await world.live.stop();
    removeKeys();
  });

  it('or an example is tested here for every route that changes something', () => {
    const app = createApp(service.context, service.running);
    const mounted = new Set([...listMountedRoutes(app), ...listPageRoutes(app)]);
    // Those of the portal are tested with its sessions.
    const changing = [...mounted].filter((address) => !/^(get|head|options) | \/portal/.test(address));
    const tested = new Set([...Object.keys(changes), ...described.map(addressOf), ...others]);
    expect([...tested].sort()).toEqual(changing.sort());
  });

  const cases = Object.entries(changes).flatMap(([address, prepares]) =>
    [prepares]
      .flat()
      .map((prepare, n) => ({ address, prepare, name: n ? `${address} (${n + 1})` : address })),
  );
  describe.each(cases)('$name', ({ address, prepare }) => {
    it('succeeds with the required authority', async () => {
      const hasChanged = await succeeds(await prepare(world, address), countedChanges);
      // The choice of an Organization is not counted.
      expect(hasChanged).toBe(address !== 'post /dashboard/organization');
    });

    it('is refused and changes nothing if the authority is lost before its transaction begins', async () => {
      await expectRefusals(address, () => prepare(world, address), countedChanges);
    });
  });
});

describe('an API request', () => {
  const database = useDatabase();
  const examples = useExamples(() => interrupted(database.db));
  let countedChanges: () => Promise<string>;
  beforeAll(async () => {
    countedChanges = await countChanges(database.db);
  });

  describe.each(described.map((route) => ({ address: addressOf(route), route })))(
    '$address',
    ({ address, route }) => {
      const successful = route.examples.filter(({ response }) => response.status < 400);
      const prepare = async (example: SentExample): Promise<Prepared> => {
        const prepared = await examples.prepare(route, example);
        return { ...prepared, withdrawals: withdrawals(prepared, route, example) };
      };

      it('succeeds with the required authority, and is refused if the authority is lost meanwhile', async () => {
        let changing = 0;
        for (const example of successful) {
          if (!(await succeeds(await prepare(example), countedChanges))) continue;
          changing++;
          await expectRefusals(address, () => prepare(example), countedChanges);
        }
        expect(changing > 0 || address in changes).toBe(true);
      });
    },
  );

  function withdrawals(
    { service }: Pick<Prepared, 'service'>,
    { tag }: DescribedRoute,
    { request: { credential } }: SentExample,
  ): Prepared['withdrawals'] {
    const { db } = database;
    const now = new Date(service.clock.now());
    if (credential === 'operator') {
      const { operatorTokens } = service.context.config;
      return { 'token exchanged': async () => void operatorTokens.splice(0) };
    }
    // These check a password, which the cases of the forms change.
    if (credential === 'none') return {};
    if (credential === 'ownerSession') {
      const { organization, users } = exampleWorld;
      const userId = users.owner.id;
      const member = { orgId: organization.id, userId, demotedTo: 'billing' as const };
      return {
        'signed out': () => db.orm.delete(sessions).where(eq(sessions.userId, userId)),
        ...(tag === 'Signing in' ? {} : withdrawalsOf(db, member)),
      };
    }
    if (credential === 'serviceKey') {
      const end = (values: Parameters<typeof endServiceKey>[2]) => () =>
        change({ db, clock: service.clock }, byService, (tx) =>
          endServiceKey(tx, exampleWorld.serviceKeys.serviceKey.id, values),
        );
      return { revoked: end({ revokedAt: now }), expired: end({ expiresAt: now }) };
    }
    const { id } = Object.entries(exampleWorld.keys).find(([name]) => name === credential)![1];
    const set = (values: { revokedAt?: Date; expiresAt?: Date }) => () =>
      db.orm.update(apiKeys).set(values).where(eq(apiKeys.id, id));
    return { revoked: set({ revokedAt: now }), expired: set({ expiresAt: now }) };
  }
});
