import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { plainName, queueMail } from '../../../src/accounts/mail/outbox.js';
import { newId } from '../../../src/core/ids.js';
import { createSecretBox } from '../../../src/core/secret-box.js';
import { createMailSender, deleteOldMails, resealMails } from '../../../src/accounts/mail/sender.js';
import { mails } from '../../../src/accounts/mail/table.js';
import { findFreePort } from '../../support/free-port.js';
import { mailEnv, startMailServer, type MailServer } from '../../support/mail.js';
import { useService } from '../../support/use.js';

const DAY_MS = 86_400_000;

let port: number;
beforeAll(async () => void (port = await findFreePort()));
const { database, service } = useService(() => ({ env: mailEnv(port) }));
let server: MailServer | undefined;
beforeEach(async () => {
  await server?.stop();
  server = undefined;
  await database.db.orm.delete(mails);
});
afterAll(async () => {
  await server?.stop();
});

const start = async (options?: Parameters<typeof startMailServer>[0]) =>
  (server = await startMailServer(options, port));

const queue = (to: string, more: Partial<Parameters<typeof queueMail>[2]> = {}) =>
  change(service.context, byService, (tx) =>
    queueMail(tx, service.context.config.mail, {
      kind: 'account_notice',
      to,
      subject: 'Hello',
      text: (origin) => ['First.', `${origin}/reset#secret`],
      at: new Date(service.clock.now()),
      ...more,
    }),
  );

const rowsOf = async () => database.db.orm.select().from(mails);

describe('a queued mail', () => {
  it('is sent once by concurrent instances, and its text is then erased', async () => {
    const { received } = await start();
    for (let n = 0; n < 30; n++) await queue(`person-${n}@example.com`);
    const instances = [1, 2, 3].map(() => createMailSender(service.context));
    await Promise.all(instances.map((send) => send()));
    expect(received).toHaveLength(30);
    expect(new Set(received.map(({ recipients }) => recipients[0]))).toEqual(
      new Set(Array.from({ length: 30 }, (_, n) => `person-${n}@example.com`)),
    );
    const [first] = received;
    expect(first!.text).toContain('First.\n\nhttps://gauge.example.com/reset#secret\n');
    expect(first!.from!.value).toEqual([{ name: 'Gauge, Inc.', address: 'gauge@example.com' }]);
    for (const row of await rowsOf()) expect(row).toMatchObject({ text: '', attempts: 1, lastError: null });
    const { values } = await service.context.metrics.mails.get();
    expect(values.map(({ value }) => value)).toEqual([30, 0, 0]);
    expect(values[0]!.labels).toEqual({ outcome: 'sent' });
  });

  it('waits with growing delays for a server that is down, and is sent once it recovers', async () => {
    await queue('patient@example.com');
    const send = createMailSender(service.context);
    const pauses: number[] = [];
    for (let n = 0; n < 4; n++) {
      await send();
      const [row] = await rowsOf();
      expect(row!.text).not.toContain('#secret');
      pauses.push((row!.nextAttemptAt.getTime() - service.clock.now()) / 60_000);
      // Nothing is sent before the delay is over.
      await send();
      expect((await rowsOf())[0]!.attempts).toBe(n + 1);
      service.clock.advance(row!.nextAttemptAt.getTime() - service.clock.now());
    }
    expect(pauses).toEqual([1, 2, 4, 8]);
    const { received } = await start();
    await send();
    expect(received).toHaveLength(1);
    expect((await rowsOf())[0]).toMatchObject({ attempts: 5, text: '' });
  });

  it('is given up after a day or when it becomes useless, and its secret is erased', async () => {
    const soon = new Date(service.clock.now() + 90_000);
    await queue('day@example.com');
    await queue('soon@example.com', { uselessAt: soon });
    const send = createMailSender(service.context);
    for (let n = 0; n < 20; n++) {
      await send();
      const waiting = (await rowsOf()).filter(({ failedAt }) => failedAt === null);
      if (waiting.length === 0) break;
      const next = Math.min(...waiting.map(({ nextAttemptAt }) => nextAttemptAt.getTime()));
      service.clock.advance(next - service.clock.now());
    }
    const rows = Object.fromEntries((await rowsOf()).map((row) => [row.toAddress, row]));
    expect(rows['day@example.com']).toMatchObject({ text: '', attempts: 12, sentAt: null });
    expect(rows['soon@example.com']).toMatchObject({ text: '', attempts: 2 });
    expect(rows['day@example.com']!.lastError).toContain('ECONNREFUSED');
    await start();
    await send();
    expect(server!.received).toEqual([]);
  });

  it('is not retried after a permanent refusal of the recipient', async () => {
    const { received } = await start({
      onRcptTo: ({ address }, _session, done) =>
        done(
          address.startsWith('gone') ? Object.assign(new Error('No such user'), { responseCode: 550 }) : null,
        ),
    });
    await queue('gone@example.com');
    await queue('there@example.com');
    await createMailSender(service.context)();
    expect(received.map(({ recipients }) => recipients)).toEqual([['there@example.com']]);
    const gone = (await rowsOf()).find(({ toAddress }) => toAddress.startsWith('gone'))!;
    expect(gone).toMatchObject({ text: '', attempts: 1 });
    expect(gone.failedAt).not.toBeNull();
    expect(gone.lastError).toContain('No such user');
  });

  it('is sent again with the same Message-ID after a crash between sending and marking', async () => {
    const { received } = await start();
    await queue('twice@example.com');
    const [row] = await rowsOf();
    await createMailSender(service.context)();
    // The state left by a process that dies before it marks the mail as sent.
    const crashed = { ...row, attempts: 1, nextAttemptAt: new Date(service.clock.now() + 120_000) };
    await database.db.orm.update(mails).set(crashed).where(eq(mails.id, row!.id));
    await createMailSender(service.context)();
    expect(received).toHaveLength(1);
    service.clock.advance(120_000);
    await createMailSender(service.context)();
    expect(received.map(({ messageId }) => messageId)).toEqual([
      `<${row!.id}@example.com>`,
      `<${row!.id}@example.com>`,
    ]);
  });

  it('never lets user-chosen names become a header, an address or another line', async () => {
    const { received } = await start();
    const name = 'Acme\r\nBcc: victim@example.com\r\n\r\nClick https://evil.example \u202e\u0000';
    await queue('"a,b"@example.com', { subject: `Invitation to ${name}` });
    await createMailSender(service.context)();
    const [mail] = received;
    expect(mail!.recipients).toEqual(['"a,b"@example.com']);
    expect(mail!.bcc).toBeUndefined();
    expect(mail!.subject).toBe('Invitation to Acme Bcc: victim@example.com Click https://evil.example');
    expect(mail!.source).not.toMatch(/^bcc/im);
    expect(plainName(name)).toBe('Acme Bcc: victim@example.com Click https evil.example');
    expect(plainName('🎈'.repeat(200))).toBe('🎈'.repeat(80));
  });

  it('to one address on behalf of others is limited to five an hour', async () => {
    const sent: boolean[] = [];
    for (let n = 0; n < 7; n++) sent.push(await queue('flooded@example.com', { kind: 'invitation' }));
    expect(sent).toEqual([true, true, true, true, true, false, false]);
    service.clock.advance(3_600_000);
    expect(await queue('flooded@example.com', { kind: 'invitation' })).toBe(true);
  });

  it('is deleted seven days after it was sent', async () => {
    await start();
    await queue('forgotten@example.com');
    await createMailSender(service.context)();
    await deleteOldMails(database.db, new Date(service.clock.now() + 7 * DAY_MS - 1));
    expect(await rowsOf()).toHaveLength(1);
    await deleteOldMails(database.db, new Date(service.clock.now() + 7 * DAY_MS));
    expect(await rowsOf()).toEqual([]);
  });

  it('is neither written nor sent if no server is configured', async () => {
    const isQueued = await change(service.context, byService, (tx) =>
      queueMail(tx, undefined, {
        kind: 'invitation',
        to: 'a@example.com',
        subject: '',
        text: () => [],
        at: new Date(),
      }),
    );
    expect([isQueued, await rowsOf()]).toEqual([false, []]);
  });
});

describe('a text that waits', () => {
  it('is sealed while it waits, and is read after a rotation and from before the upgrade', async () => {
    const { context } = service;
    const { mail } = context.config;
    await queue('sealed@example.com');
    const [sealed] = await rowsOf();
    expect(JSON.stringify(sealed)).not.toContain('secret');
    const rotated = { ...mail!, secretKeys: ['the newest key', ...mail!.secretKeys] };
    const id = newId(service.clock.now());
    await database.db.orm.insert(mails).values({
      ...sealed!,
      id,
      toAddress: 'plain@example.com',
      text: 'https://gauge.example.com/reset#secret',
    });
    await resealMails(database.db, rotated);
    const texts = (await rowsOf()).map(({ text }) => text);
    const { currentPrefix } = createSecretBox(rotated.secretKeys, 'mail');
    expect(texts.map((text) => text.startsWith(currentPrefix))).toEqual([true, true]);
    const { received } = await start();
    // The old key is gone.
    const config = { ...context.config, mail: { ...rotated, secretKeys: ['the newest key'] } };
    await createMailSender({ ...context, config })();
    expect(received.map(({ text }) => text!.includes('/reset#secret'))).toEqual([true, true]);
  });

  it('whose key is missing waits, and is sent once the key is back', async () => {
    const { received } = await start();
    await queue('later@example.com');
    const { context } = service;
    const config = { ...context.config, mail: { ...context.config.mail!, secretKeys: ['another key'] } };
    await createMailSender({ ...context, config })();
    expect(await rowsOf()).toMatchObject([{ sentAt: null, failedAt: null }]);
    expect((await rowsOf())[0]!.lastError).toContain('SECRET_KEYS does not contain the key');
    service.clock.advance(5 * 60_000);
    await createMailSender(context)();
    expect(received).toHaveLength(1);
  });
});
