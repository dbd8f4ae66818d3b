import { and, gt } from 'drizzle-orm';
import type { MailConfig, ServiceConfig } from '../../core/config.js';
import type { Tx } from '../../core/db/client.js';
import { matches } from '../../core/db/sql.js';
import { newId } from '../../core/ids.js';
import { createSecretBox } from '../../core/secret-box.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { mails, type MailKind } from './table.js';

export interface MailDeps {
  config: Pick<ServiceConfig, 'mail'>;
}

export interface NewMail {
  kind: MailKind;
  to: string;
  subject: string;
  text: (origin: string) => string[];
  at: Date;
  /** Sending stops after a day in any case. */
  uselessAt?: Date;
}

/** Per address, for kinds that other people can trigger. Further messages are dropped. */
const perHour: Partial<Record<MailKind, number>> = { invitation: 5 };

/** `tx` must make the change being reported. False if mail is off or the address has reached its hourly limit. */
export async function queueMail(
  tx: Tx,
  mail: MailConfig | undefined,
  { kind, to, subject, text, at, uselessAt }: NewMail,
): Promise<boolean> {
  if (!mail) return false;
  const limit = perHour[kind];
  if (limit !== undefined && (await countLately(tx, kind, to, at)) >= limit) return false;
  const lastAt = new Date(at.getTime() + DAY_MS);
  const id = newId(at.getTime());
  const message = [...text(mail.origin), `-- \nGauge, ${mail.origin}`].join('\n\n');
  await tx.insert(mails).values({
    id,
    kind,
    toAddress: to,
    subject: plainText(subject, 150),
    text: createSecretBox(mail.secretKeys, 'mail').seal(id, message),
    createdAt: at,
    nextAttemptAt: at,
    giveUpAt: uselessAt && uselessAt < lastAt ? uselessAt : lastAt,
  });
  return true;
}

function countLately(tx: Tx, kind: MailKind, to: string, at: Date): Promise<number> {
  const since = new Date(at.getTime() - HOUR_MS);
  return tx.$count(mails, and(matches(mails, { toAddress: to, kind }), gt(mails.createdAt, since)));
}

/** A user may choose the name: mail clients must not turn it into a link. */
export const plainName = (name: string): string => plainText(name.replaceAll('://', ' '), 80);

/** Also strips characters that change the writing direction. */
const plainText = (text: string, length: number): string =>
  Array.from(text.replace(/[\p{C}\s]+/gu, ' ').trim())
    .slice(0, length)
    .join('');
