import { pino } from 'pino';
import { sql } from 'drizzle-orm';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { systemClock as clock } from '../../../src/core/time.js';
import { putGrant } from '../../../src/metering/credit-grants/grants.js';
import { createCreditMessages } from '../../../src/metering/credit-grants/watch.js';

/**
 * Grants TEST_GRANTS (JSON) to each Organization and sends messages about credits, without pauses, until the process is
 * killed.
 */
const { DATABASE_URL: databaseUrl, TEST_GRANTS = '' } = process.env;
const grants = JSON.parse(TEST_GRANTS) as { amount: string }[];
const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));

async function grantToAll(): Promise<void> {
  const rows = await selectRows<{ orgId: string }>(
    db.orm,
    sql`select id as "orgId" from organizations order by random()`,
  );
  for (const { orgId } of rows)
    for (const [i, grant] of grants.entries())
      await change({ db, clock }, byService, (tx) => {
        const source = { actor: 'system', at: new Date(clock.now()) };
        return putGrant(tx, { orgId, livemode: true }, `g${i}`, { ...grant, reason: 'test' }, source);
      });
}

async function repeat(work: () => Promise<void>): Promise<never> {
  for (;;) await work();
}

await Promise.all([repeat(grantToAll), repeat(createCreditMessages({ db, clock }))]);
