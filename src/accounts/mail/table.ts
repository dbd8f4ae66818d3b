import { sql } from 'drizzle-orm';
import { check, index, pgTable } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

export const mailKinds = [
  'invitation',
  'password_reset',
  'account_notice',
  'cap_notice',
  'key_notice',
] as const;
export type MailKind = (typeof mailKinds)[number];

/** A message's row is written in the transaction of its change; a job sends it. */
export const mails = pgTable(
  'mails',
  (c) => ({
    /** Part of the Message-ID, by which duplicates are recognized. */
    id: c.uuid().primaryKey(),
    kind: c.text({ enum: mailKinds }).notNull(),
    toAddress: c.text('to_address').notNull(),
    subject: c.text().notNull(),
    /** Sealed, because it may contain a secret link, and cleared afterwards. Earlier versions did not seal it. */
    text: c.text().notNull(),
    createdAt: time('created_at').notNull(),
    /** While an instance is sending, the end of its lease. */
    nextAttemptAt: time('next_attempt_at').notNull(),
    giveUpAt: time('give_up_at').notNull(),
    attempts: c.integer().notNull().default(0),
    sentAt: time('sent_at'),
    failedAt: time('failed_at'),
    lastError: c.text('last_error'),
  }),
  (t) => [
    index('mails_due')
      .on(t.nextAttemptAt)
      .where(sql`${t.sentAt} is null and ${t.failedAt} is null`),
    index('mails_to').on(t.toAddress, t.kind, t.createdAt),
    index('mails_end').on(sql`coalesce(${t.sentAt}, ${t.failedAt}, ${t.createdAt})`),
    check('mails_kind', sql`${t.kind} in (${sql.raw(mailKinds.map((kind) => `'${kind}'`).join(', '))})`),
  ],
);
