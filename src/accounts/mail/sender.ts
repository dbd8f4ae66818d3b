import { and, asc, eq, gt, isNull, lte, sql } from 'drizzle-orm';
import { findProxy } from '../../core/http/proxy.js';
import type { Transporter } from 'nodemailer';
import type { MailConfig } from '../../core/config.js';
import type { Orm } from '../../core/db/client.js';
import { matches } from '../../core/db/sql.js';
import type { Context } from '../../core/http/context.js';
import { createSecretBox, isSealed } from '../../core/secret-box.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { mails } from './table.js';

const IN_FLIGHT = 8;
const BATCHES_PER_RUN = 20;
/** An instance without a result by then is considered dead. Must exceed the sum of the timeouts below. */
const LEASE_MS = 2 * MINUTE_MS;
const CONNECT_MS = 10 * SECOND_MS;
const ANSWER_MS = 20 * SECOND_MS;
const FIRST_PAUSE_MS = MINUTE_MS;
const LONGEST_PAUSE_MS = 6 * HOUR_MS;
const KEPT_MS = 7 * DAY_MS;
const MAX_COUNTED = 1000;
const RESEALED = 100;

type Mail = typeof mails.$inferSelect;
type SenderDeps = Pick<Context, 'config' | 'db' | 'clock' | 'log' | 'metrics'>;

const isWaiting = and(isNull(mails.sentAt), isNull(mails.failedAt));

/** If an instance dies while sending, the message is sent again with the same Message-ID. */
export function createMailSender({ config: { mail }, ...deps }: SenderDeps): () => Promise<void> {
  if (!mail) return () => Promise.resolve();
  const { db, clock, metrics } = deps;
  let transport: Transporter | undefined;
  return async () => {
    for (let batch = 0; batch < BATCHES_PER_RUN; batch++) {
      const due = await claimDue(db.orm, new Date(clock.now()));
      if (due.length > 0) transport ??= await connect(mail);
      const outcomes = await Promise.all(due.map((row) => deliver(deps, transport!, mail, row)));
      // After a deferral, the mail server may be down.
      if (due.length < IN_FLIGHT || outcomes.includes('deferred')) break;
    }
    metrics.mailsWaiting.set(await countWaiting(db.orm));
  };
}

export async function deleteOldMails({ orm }: { orm: Orm }, now: Date): Promise<void> {
  const end = sql`coalesce(${mails.sentAt}, ${mails.failedAt}, ${mails.createdAt})`;
  await orm
    .delete(mails)
    .where(sql`${end} <= ${new Date(now.getTime() - KEPT_MS).toISOString()}::timestamptz`);
}

function claimDue(orm: Orm, now: Date): Promise<Mail[]> {
  const due = orm
    .select({ id: mails.id })
    .from(mails)
    .where(and(isWaiting, lte(mails.nextAttemptAt, now)))
    .orderBy(asc(mails.nextAttemptAt))
    .limit(IN_FLIGHT)
    .for('update', { skipLocked: true });
  return (
    orm
      .update(mails)
      .set({
        attempts: sql`${mails.attempts} + 1`,
        nextAttemptAt: new Date(now.getTime() + LEASE_MS),
      })
      // A plain subquery may run again for each row and lock different rows.
      .where(sql`${mails.id} = any(array(${due}))`)
      .returning()
  );
}

const countWaiting = (orm: Orm) =>
  orm.$count(orm.select({ id: mails.id }).from(mails).where(isWaiting).limit(MAX_COUNTED).as('some'));

/** Most processes send no message, so nodemailer is loaded for the first. */
async function connect({ host, tls, auth, ...given }: MailConfig): Promise<Transporter> {
  const { createTransport } = await import('nodemailer');
  // Without a port, nodemailer opens no tunnel.
  const port = given.port ?? (tls === 'implicit' ? 465 : 587);
  return createTransport({
    host,
    port,
    proxy: findProxy(`smtps://${host}:${port}`) ?? '',
    ...(auth ? { auth } : {}),
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: ANSWER_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

async function deliver(
  { db: { orm }, clock, log, metrics }: Omit<SenderDeps, 'config'>,
  transport: Transporter,
  mail: MailConfig,
  row: Mail,
): Promise<'sent' | 'deferred' | 'failed'> {
  const { id, kind, attempts } = row;
  const send = async () => transport.sendMail(toMessage({ ...row, text: openText(mail, row) }, mail.from));
  const error = await send().then(
    () => undefined,
    (thrown: unknown) => thrown as SmtpError,
  );
  const at = new Date(clock.now());
  const outcome = error ? outcomeOf(error, row, at) : ({ outcome: 'sent' } as const);
  const set =
    outcome.outcome === 'deferred'
      ? { nextAttemptAt: outcome.nextAttemptAt, lastError: describe(error) }
      : outcome.outcome === 'failed'
        ? { failedAt: at, text: '', lastError: describe(error) }
        : { sentAt: at, text: '', lastError: null };
  // If another instance has claimed the message since, this one may still report success, but not failure.
  const isOurs = outcome.outcome === 'sent' ? undefined : eq(mails.attempts, attempts);
  await orm
    .update(mails)
    .set(set)
    .where(and(eq(mails.id, id), isWaiting, isOurs));
  metrics.mails.inc({ outcome: outcome.outcome });
  const line = { mailId: id, kind, attempts };
  if (outcome.outcome === 'sent') log.info(line, 'a mail was sent');
  else if (outcome.outcome === 'failed')
    log.error({ ...line, reason: reasonOf(error) }, 'a mail could not be sent; no more attempts');
  else log.warn({ ...line, reason: reasonOf(error) }, 'a mail could not be sent; it will be retried');
  return outcome.outcome;
}

const openText = ({ secretKeys }: MailConfig, { id, text }: Pick<Mail, 'id' | 'text'>): string =>
  isSealed(text) ? createSecretBox(secretKeys, 'mail').open(id, text) : text;

/** Also seals earlier versions' messages. */
export async function resealMails({ orm }: { orm: Orm }, mail: MailConfig): Promise<void> {
  const box = createSecretBox(mail.secretKeys, 'mail');
  for (let after: string | undefined, isDone = false; !isDone;) {
    const rows = await orm
      .select({ id: mails.id, text: mails.text })
      .from(mails)
      .where(
        and(
          isWaiting,
          sql`not starts_with(${mails.text}, ${box.currentPrefix})`,
          after === undefined ? undefined : gt(mails.id, after),
        ),
      )
      .orderBy(asc(mails.id))
      .limit(RESEALED);
    for (const row of rows) {
      const text = box.seal(row.id, openText(mail, row));
      await orm
        .update(mails)
        .set({ text })
        .where(matches(mails, { id: row.id, text: row.text }));
    }
    after = rows.at(-1)?.id;
    isDone = rows.length < RESEALED;
  }
}

const toMessage = ({ id, toAddress, subject, text, createdAt }: Mail, from: MailConfig['from']) => ({
  from,
  // An address or name in an object is not parsed as a list.
  to: { name: '', address: toAddress },
  envelope: { from: from.address, to: [toAddress] },
  messageId: `<${id}@${from.address.split('@')[1]!}>`,
  date: createdAt,
  subject,
  text,
  // RFC 3834: suppresses automatic replies.
  headers: { 'Auto-Submitted': 'auto-generated' },
});

interface SmtpError extends Error {
  code?: string;
  command?: string;
  responseCode?: number;
}

/** Permanent errors about the recipient or the message are final. Somebody may fix the cause of others. */
function outcomeOf({ command, responseCode = 0 }: SmtpError, { attempts, giveUpAt }: Mail, at: Date) {
  const isFinal = responseCode >= 500 && /^(?:RCPT TO|DATA)$/.test(command ?? '');
  const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS);
  const nextAttemptAt = new Date(at.getTime() + pauseMs);
  return isFinal || nextAttemptAt > giveUpAt
    ? ({ outcome: 'failed' } as const)
    : ({ outcome: 'deferred', nextAttemptAt } as const);
}

const describe = (error: SmtpError | undefined): string => (error?.message ?? '').slice(0, 500);

/** Server messages may repeat addresses. */
const reasonOf = (error: SmtpError | undefined): string =>
  [error?.code, error?.command, error?.responseCode].filter((part) => part !== undefined).join(' ');
