import { request, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { listMountedRoutes, listPageRoutes } from '../openapi/support/mounted-routes.js';
import { countChanges } from '../support/counted-changes.js';
import { ordinaryNames, populate } from '../pages/populated.js';
import { changes, others, type Prepared, type World, type Prepare } from './changes.js';
import { openLiveAccount, removeKeys } from '../markets/support/live-account.js';
import { createApp } from '../../src/app.js';
import { useDatabase, useServiceOn } from '../support/use.js';

const database = useDatabase();
const service = useServiceOn(() => interrupted(database.db), {
  env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' },
  app: { signInLimits: { perAddress: 10_000 }, joinLimits: { newAccounts: 1000, wrongLinks: 1000 } },
});
let world: World;
let countedChanges: () => Promise<string>;
/** Runs once, just before the next transaction begins. */
let meanwhile: (() => Promise<unknown>) | undefined;

beforeAll(async () => {
  const own = await populate(service, ordinaryNames);
  world = { db: database.db, service, own, live: await openLiveAccount(interrupted(database.db)) };
  countedChanges = await countChanges(database.db);
});
afterAll(async () => {
  await world.live.stop();
  removeKeys();
});

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

it('the table contains every route that changes something', () => {
  const app = createApp(service.context, service.running);
  const mounted = new Set([...listMountedRoutes(app), ...listPageRoutes(app)]);
  const changing = [...mounted].filter((address) => !/^(get|head|options) /.test(address));
  expect([...Object.keys(changes), ...others].sort()).toEqual(changing.sort());
});

interface Answer {
  status: number;
  text: string;
  location: string | undefined;
}

/** True if refused by status or by a redirect to the sign-in or confirmation page. */
const isRefused = ({ status, location }: Answer) =>
  [401, 403, 404].includes(status) || (status === 303 && /^\/(login|confirm)\b/.test(location!));

const cases = Object.entries(changes)
  .flatMap(([address, prepares]) =>
    prepares.map((prepare, n) => ({ name: n === 0 ? address : `${address} (${n + 1})`, prepare })),
  )
  .map((each) => ({
    ...each,
    // Recording usage checks the key in the statement itself, or the operator's token once the body is read.
    hasTransaction:
      !/\/api\/usage|\{slug\}\/usage\/events/.test(each.name) || each.name.includes('corrections'),
  }));

describe.each(cases)('$name', ({ prepare, hasTransaction }) => {
  it('succeeds with the required authority', async () => {
    const before = await countedChanges();
    const { status, text } = await send(await prepare(world));
    expect([status < 400, text.slice(0, 300)]).toEqual([true, expect.anything()]);
    expect(await countedChanges()).not.toBe(before);
  });

  if (!hasTransaction)
    it('is refused and changes nothing if the authority is lost while the body is being sent', async () => {
      for await (const { prepared, what } of withdrawals(prepare)) {
        if (prepared.body === undefined) return;
        let before = '';
        const answer = await withTokens(prepared, () =>
          send(prepared, async () => {
            await prepared.withdrawals[what]!();
            before = await countedChanges();
          }),
        );
        expect([what, isRefused(answer), answer.status]).toEqual([what, true, answer.status]);
        expect(await countedChanges(), what).toBe(before);
      }
    });
  else
    it('is refused and changes nothing if the authority is lost before its transaction begins', async () => {
      for await (const { prepared, what } of withdrawals(prepare)) {
        let before = '';
        let isBodyRead = false;
        let received: IncomingMessage;
        (prepared.service ?? service).server.once('request', (req: IncomingMessage) => (received = req));
        meanwhile = async () => {
          isBodyRead = !prepared.body || received.readableEnded;
          await prepared.withdrawals[what]!();
          before = await countedChanges();
        };
        const answer = await withTokens(prepared, () => send(prepared));
        // The authority is withdrawn after the whole body has been read, so this also covers a withdrawal while the
        // body is being sent.
        expect([what, meanwhile, isBodyRead]).toEqual([what, undefined, true]);
        expect([what, isRefused(answer), answer.status]).toEqual([what, true, answer.status]);
        expect(await countedChanges(), what).toBe(before);
      }
    });
});

/** Yields a freshly prepared request for each way to withdraw its authority. */
async function* withdrawals(prepare: Prepare) {
  let prepared = await prepare(world);
  for (const [n, what] of Object.keys(prepared.withdrawals).entries()) {
    if (n > 0) prepared = await prepare(world);
    yield { prepared, what };
  }
}

/** Runs `work` and then restores the operator tokens. */
async function withTokens<T>({ service: asked = service }: Prepared, work: () => Promise<T>): Promise<T> {
  const { operatorTokens } = asked.context.config;
  const tokens = [...operatorTokens];
  try {
    return await work();
  } finally {
    operatorTokens.splice(0, operatorTokens.length, ...tokens);
  }
}

/** Pause after the first half of the body; long enough for all checks that run before the body is read. */
const HALF_SENT_MS = 150;

/** Sends half of the body, awaits `between`, and sends the rest. */
async function send(
  { method, path, headers, body, service: asked = service }: Prepared,
  between?: () => Promise<void>,
): Promise<Answer> {
  const bytes = Buffer.from(body ?? '');
  const length = body === undefined ? {} : { 'content-length': String(bytes.length) };
  const call = request(asked.url + path, { method, headers: { ...headers, ...length } });
  const answer = new Promise<Answer>((resolve, reject) => {
    call.on('error', reject);
    call.on('response', (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: res.statusCode!, text, location: res.headers.location });
      });
    });
  });
  const half = bytes.length >> 1;
  if (between) {
    call.write(bytes.subarray(0, half));
    await sleep(HALF_SENT_MS);
    await between();
    call.end(bytes.subarray(half));
  } else call.end(bytes);
  return answer;
}
