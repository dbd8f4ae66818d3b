import { afterAll, beforeAll, expect, it } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { queueMail } from '../../../src/accounts/mail/outbox.js';
import { createMailSender } from '../../../src/accounts/mail/sender.js';
import { mails } from '../../../src/accounts/mail/table.js';
import { findFreePort } from '../../support/free-port.js';
import { mailEnv, startMailServer, type MailServer } from '../../support/mail.js';
import { startTestService, type TestService } from '../../support/service.js';
import { useDatabase } from '../../support/use.js';

const MAILS = 300;

const database = useDatabase();
let instances: TestService[];
let server: MailServer;
beforeAll(async () => {
  const port = await findFreePort();
  // The server answers slowly enough for both instances to send at the same time.
  server = await startMailServer({ onRcptTo: (_address, _session, done) => void setTimeout(done, 10) }, port);
  const start = () => startTestService(database.db, { env: mailEnv(port) });
  instances = [await start(), await start()];
});
afterAll(async () => {
  for (const instance of instances) await instance.stop();
  await server.stop();
});

it('two instances share one outbox and send each mail once', async () => {
  const [first] = instances;
  const { context } = first!;
  await change(context, byService, async (tx) => {
    for (let n = 0; n < MAILS; n++)
      await queueMail(tx, context.config.mail, {
        kind: 'account_notice',
        to: `person-${n}@example.com`,
        subject: 'Hello',
        text: () => ['First.'],
        at: new Date(context.clock.now()),
      });
  });
  const senders = instances.map((instance) => createMailSender(instance.context));
  for (let run = 0; run < 3; run++) await Promise.all(senders.map((send) => send()));
  const addresses = server.received.map(({ recipients }) => recipients[0]!);
  expect(addresses).toHaveLength(MAILS);
  expect(new Set(addresses).size).toBe(MAILS);
  for (const row of await database.db.orm.select().from(mails))
    expect(row).toMatchObject({ attempts: 1, text: '', failedAt: null, lastError: null });
  for (const instance of instances) {
    const { values } = await instance.context.metrics.mails.get();
    const [sent, deferred, failed] = values.map(({ value }) => value);
    expect(sent).toBeGreaterThan(MAILS / 10);
    expect([deferred, failed]).toEqual([0, 0]);
  }
});
