import { spawn } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { openDatabase } from '../../src/core/db/open.js';
import { selectRows } from '../../src/core/db/sql.js';
import { compareStripe, decideUnknown, listUnknown } from '../../src/metering/stripe/comparison.js';
import { identifierOf } from '../../src/metering/stripe/stripe.js';
import { startFakeStripe, type Fault } from '../metering/support/fake-stripe.js';
import { addToHour, createPayer, sumHours } from '../metering/support/stripe.js';
import { ownScript } from '../support/own-build.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createRandom } from './random.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=200 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const WRITERS = 4;
const HOUR_MS = 3_600_000;
/**
 * How many times faster than real time the clock runs. At this speed, leases and pauses still outlast requests on a
 * busy machine.
 */
const FACTOR = 120;
const faults: Fault[] = [
  'lose request',
  'lose answer',
  '500',
  '500 after recording',
  '502 page',
  'double',
  'double, second answer',
  'delay',
  '429',
];

it(
  `Stripe's sum of each customer, meter and hour is Gauge's, whatever is killed (seed ${seed})`,
  { timeout: 3_600_000 },
  async () => {
    const random = createRandom(seed);
    const from = Date.now();
    const clock = { now: () => from + (Date.now() - from) * FACTOR };
    const postgres = await createPostgresServer();
    const databaseUrl = postgres.url('postgres');
    const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));
    const fake = await startFakeStripe(() => clock.now() / 1000, { latencyMs: 10 });
    const hourAt = (hours: number) =>
      new Date(Math.floor(from / HOUR_MS) * HOUR_MS - hours * HOUR_MS).toISOString();
    const payers = await Promise.all(Array.from({ length: 4 }, () => createPayer(db, fake, hourAt(100))));
    fake.state.fault = () => (random.chance(0.3) ? random.pick(faults) : undefined);

    let [isStopping, changes, hits] = [false, 0, 0];
    async function write(number: number): Promise<void> {
      const own = createRandom(seed + number + 1);
      while (!isStopping) {
        const payer = { ...own.pick(payers), productId: own.pick(payers).productId };
        const quantity = own.pick(['1', '2.5', '-1', '0.000001', '1000', '-0.25']);
        await addToHour(db, payer, { hour: hourAt(own.between(2, 30)), quantity });
        changes++;
        await setTimeout(own.between(0, 20));
      }
    }

    function start() {
      const child = spawn(process.execPath, ownScript('test/metering/stripe/sender'), {
        env: {
          PATH: process.env.PATH,
          DATABASE_URL: databaseUrl,
          STRIPE_API_KEY: fake.key,
          STRIPE_URL: fake.url,
          TEST_CLOCK: `${from},${FACTOR}`,
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const sender = { child, isReady: false };
      child.stdout.once('data', () => (sender.isReady = true));
      return sender;
    }

    const senders = [start(), start(), start()];
    const writers = Array.from({ length: WRITERS }, (_, number) => write(number));
    try {
      for (let kill = 1; kill <= KILLS; kill++) {
        const until = fake.state.requests + random.between(1, 20);
        while (fake.state.requests < until || !senders.some(({ isReady }) => isReady)) await setTimeout(2);
        await setTimeout(random.between(0, 20));
        if (random.chance(0.7)) while (fake.inFlight() === 0) await setTimeout(1);
        if (fake.inFlight() > 0) hits++;
        const killed = random.pick(senders.filter(({ isReady }) => isReady));
        killed.child.kill('SIGKILL');
        senders[senders.indexOf(killed)] = start();
      }
      isStopping = true;
      await Promise.all(writers);
      fake.state.fault = () => undefined;

      const open = sql`select 1 from stripe_events where state = 'waiting' limit 1`;
      const giveUpAt = Date.now() + 600_000;
      let decided = 0;
      for (;;) {
        // Decides as an operator would after looking up the identifier at Stripe.
        for (const row of await listUnknown(db.orm, undefined)) {
          const identifier = identifierOf(row);
          const found = fake.has(identifier) ? 'sent' : 'missing';
          expect(await decideUnknown(db.orm, clock, identifier, found)).toBe(true);
          decided++;
        }
        const { isEqual } = await compareStripe(db.orm, clock, undefined);
        if (isEqual && (await selectRows(db.orm, open)).length === 0) break;
        if (Date.now() > giveUpAt) throw new Error('something is still to be sent');
        await setTimeout(100);
      }
      expect(fake.sums()).toEqual(await sumHours(db));
      const identifiers = fake.counted.map(({ identifier }) => identifier);
      expect(new Set(identifiers).size).toBe(identifiers.length);
      expect(fake.uncounted).toEqual([]);
      expect(Object.keys(fake.sums()).length).toBeGreaterThan(100);
      // This test is meaningful only if there was work to lose.
      expect(hits).toBeGreaterThan(0);
      console.log({
        kills: KILLS,
        hits,
        changes,
        events: identifiers.length,
        requests: fake.state.requests,
        decided,
      });
    } finally {
      isStopping = true;
      await Promise.allSettled(writers);
      for (const { child } of senders) child.kill('SIGKILL');
      await fake.stop();
      await db.close();
      await postgres.remove();
    }
  },
);
