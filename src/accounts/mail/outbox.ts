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
  /** Lines of the mail; an empty line separates paragraphs. */
  text: (origin: string) => string[];
  at: Date;
  /** After this time the mail is useless. Sending stops after a day in any case. */
  uselessAt?: Date;
}

/** Maximum mails per hour to one address, for kinds that other people can trigger. Further mails are dropped. */
const perHour: Partial<Record<MailKind, number>> = { invitation: 5 };

/**
 * `tx` must be the transaction of the reported change.
 * @returns false if mail is off or too many mails went to the address
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

/** A name chosen by a user, on one short line, which mail clients cannot turn into a link. */
export const plainName = (name: string): string => plainText(name.replaceAll('://', ' '), 80);

/** Strips line breaks and characters that change the writing direction. */
const plainText = (text: string, length: number): string =>
  Array.from(text.replace(/[\p{C}\s]+/gu, ' ').trim())
    .slice(0, length)
    .join('');
