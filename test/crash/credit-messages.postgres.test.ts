import { spawn } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { webhookTypes } from '../../src/products.js';
import { openDatabase } from '../../src/core/db/open.js';
import { selectRow, selectRows } from '../../src/core/db/sql.js';
import { DAY_MS, HOUR_MS, systemClock } from '../../src/core/time.js';
import { createCreditMessages } from '../../src/metering/credit-grants/watch.js';
import { burnCredits } from '../metering/support/credits.js';
import { createOrganization } from '../support/fixtures.js';
import { ownScript } from '../support/own-build.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { createListener, readWebhookMessages } from '../support/webhook-messages.js';
import { createRandom } from './random.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
/** Use CRASH_KILLS=100 for a long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const ACCOUNTS = 4 * (KILLS + 1);
const types = Object.keys(webhookTypes).filter((type) => type.startsWith('credits.')) as 'credits.granted'[];

it(
  `sends each message about credits once, whatever is killed (seed ${seed})`,
  { timeout: 3_600_000 },
  async () => {
    const random = createRandom(seed);
    const postgres = await createPostgresServer();
    const databaseUrl = postgres.url('postgres');
    const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));
    const fromNow = (ms: number) => new Date(Math.ceil((Date.now() + ms) / HOUR_MS) * HOUR_MS).toISOString();
    // Usage burns the last grant in the list, so that the others still have credits left when their expiry is reported.
    const grants = [
      { amount: '1', expiresAt: fromNow(DAY_MS / 2) },
      { amount: '1', expiresAt: fromNow(3 * DAY_MS) },
      { amount: '98', priority: 0 },
    ];
    /**
     * For each Organization: the credits it burns once the grants exist, and the threshold in percent that its balance
     * then reaches.
     */
    const plans = new Map<string, { burns: string; threshold: number }>();
    for (let i = 0; i < ACCOUNTS; i++) {
      const { id } = await createOrganization(db);
      await createListener(db, id, { types });
      const burned = random.between(80, 97);
      plans.set(id, { burns: String(burned), threshold: burned < 90 ? 20 : 10 });
    }
    const total = ACCOUNTS * 6;

    let isStopping = false;
    async function burnAll(): Promise<void> {
      const left = new Map(plans);
      while (left.size > 0 && !isStopping) {
        const rows = await selectRows<{ orgId: string }>(
          db.orm,
          sql`select org_id as "orgId" from credit_accounts where cardinality(grants) = 3`,
        );
        for (const { orgId } of rows) {
          const plan = left.get(orgId);
          if (plan) await burnCredits(db, { orgId, livemode: true }, plan.burns, new Date());
          left.delete(orgId);
        }
        await setTimeout(5);
      }
    }

    const exits: unknown[] = [];
    function start() {
      const child = spawn(process.execPath, ownScript('test/metering/credit-grants/granter'), {
        env: { PATH: process.env.PATH, DATABASE_URL: databaseUrl, TEST_GRANTS: JSON.stringify(grants) },
        stdio: ['ignore', 'inherit', 'inherit'],
      });
      child.once('exit', (code) => code !== null && exits.push(code));
      return child;
    }
    const countMessages = async () =>
      (await selectRow<{ n: number }>(db.orm, sql`select count(*)::int as n from webhook_messages`))!.n;
    async function waitFor(messages: number): Promise<void> {
      for (const giveUpAt = Date.now() + 180_000; (await countMessages()) < messages; await setTimeout(2)) {
        expect(exits).toEqual([]);
        if (Date.now() > giveUpAt) throw new Error(`fewer than ${messages} messages`);
      }
    }
    /** True if another connection is in a transaction. */
    const isBusy = async () =>
      (await selectRow<{ busy: boolean }>(
        db.orm,
        sql`select exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle') as busy`,
      ))!.busy;

    const instances = [start(), start()];
    const burning = burnAll();
    let hits = 0;
    try {
      for (let kill = 1; kill <= KILLS; kill++) {
        const share = (n: number) => Math.floor((total * n) / (KILLS + 1));
        await waitFor(share(kill - 1) + random.between(1, share(1)));
        await setTimeout(random.between(0, 10));
        if (await isBusy()) hits++;
        const which = random.between(0, 1);
        instances[which]!.kill('SIGKILL');
        instances[which] = start();
      }
      await waitFor(total);
      await burning;
      for (let i = 0; i < 2; i++) await createCreditMessages({ db, clock: systemClock })();

      for (const [orgId, { threshold }] of plans) {
        const sent = await readWebhookMessages(db, orgId);
        const name = ({ type, data }: (typeof sent)[number]) =>
          [type, data.grantKey ?? data.threshold, data.daysBefore ?? ''].join(' ').trim();
        expect(sent.map(name).sort()).toEqual([
          'credits.expiring g0 1',
          'credits.expiring g1 7',
          'credits.granted g0',
          'credits.granted g1',
          'credits.granted g2',
          `credits.threshold_reached ${threshold}`,
        ]);
      }
      const deliveries = await selectRow<{ n: number }>(
        db.orm,
        sql`select count(distinct message_id)::int as n from webhook_deliveries having count(*) = count(distinct message_id)`,
      );
      expect(deliveries).toEqual({ n: total });
      // This test is meaningful only if there was work to lose.
      expect(hits).toBeGreaterThan(0);
      console.log({ kills: KILLS, hits, messages: total });
    } finally {
      isStopping = true;
      await Promise.allSettled([burning]);
      for (const child of instances) child.kill('SIGKILL');
      await db.close();
      await postgres.remove();
    }
  },
);
