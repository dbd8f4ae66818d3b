import { and, count, eq, gt } from 'drizzle-orm';
import type { MailConfig, ServiceConfig } from '../../core/config.js';
import type { Tx } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { mails, type MailKind } from './table.js';

export interface MailDeps {
  config: Pick<ServiceConfig, 'mail'>;
}

export interface NewMail {
  kind: MailKind;
  to: string;
  subject: string;
  /** Its paragraphs. A line that is left empty stands between them. */
  text: (origin: string) => string[];
  at: Date;
  /** From then on it is of no use; a day from now if left out. */
  uselessAt?: Date;
}

/** Mails in an hour that people can have sent to the address of another person. Beyond it nothing is written. */
const perHour: Partial<Record<MailKind, number>> = { invitation: 5 };

/**
 * Writes a mail in the transaction of what it reports: both happen or neither.
 * @returns false where none will be sent: mail is off, or the address had too many
 */
export async function queueMail(
  tx: Tx,
  mail: MailConfig | undefined,
  { kind, to, subject, text, at, uselessAt }: NewMail,
): Promise<boolean> {
  if (!mail) return false;
  const limit = perHour[kind];
  if (limit !== undefined && (await countLately(tx, kind, to, at)) >= limit) return false;
  const lastAt = new Date(at.getTime() + DAY_MS);
  await tx.insert(mails).values({
    id: newId(at.getTime()),
    kind,
    toAddress: to,
    subject: plainText(subject, 150),
    text: [...text(mail.origin), `-- \nGauge, ${mail.origin}`].join('\n\n'),
    createdAt: at,
    nextAttemptAt: at,
    giveUpAt: uselessAt && uselessAt < lastAt ? uselessAt : lastAt,
  });
  return true;
}

async function countLately(tx: Tx, kind: MailKind, to: string, at: Date): Promise<number> {
  const since = new Date(at.getTime() - HOUR_MS);
  const [row] = await tx
    .select({ lately: count() })
    .from(mails)
    .where(and(eq(mails.toAddress, to), eq(mails.kind, kind), gt(mails.createdAt, since)));
  return row!.lately;
}

/** A name that somebody has chosen, in one short line of which no reader of mail makes a link. */
export const plainName = (name: string): string => plainText(name.replaceAll('://', ' '), 80);

/** Without what breaks lines or turns the direction of writing. */
const plainText = (text: string, length: number): string =>
  Array.from(text.replace(/[\p{C}\s]+/gu, ' ').trim())
    .slice(0, length)
    .join('');
