import { index, pgTable, unique } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { organizations, users } from '../organizations/table.js';

export const portalPages = ['usage', 'entitlements', 'credits', 'events', 'keys'] as const;
export type PortalPage = (typeof portalPages)[number];

/** A customer sees its Organization's usage in the vendor's own product, without an account. */
export const portalSessions = pgTable(
  'portal_sessions',
  (c) => ({
    id: c.uuid().primaryKey(),
    /** Not called org_id, because a session is found by its token alone. */
    organizationId: c
      .uuid('organization_id')
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    /** SHA-256, hex, like the token's. */
    hashedLink: c.text('hashed_link').notNull(),
    /** In the cookie; null until the link is opened. */
    hashedToken: c.text('hashed_token'),
    /** Ends with this key; null if an operator created the session. */
    serviceKeyId: c.uuid('service_key_id'),
    /** Set if this operator views the pages as the customer; ends with the operator's right. */
    operatorId: c.uuid('operator_id').references(() => users.id, { onDelete: 'cascade' }),
    /** As in the audit log. */
    createdBy: c.text('created_by').notNull(),
    /** The vendor vouches for this person, who then manages API keys. */
    memberId: c.uuid('member_id').references(() => users.id, { onDelete: 'cascade' }),
    pages: c.text({ enum: portalPages }).array().notNull(),
    /** Null for both modes. */
    livemode: c.boolean(),
    /** Shows only this subject's usage. */
    subject: c.text(),
    returnUrl: c.text('return_url'),
    /** `#rrggbb` */
    accent: c.text(),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
  }),
  (t) => [
    unique('portal_sessions_hashed_link').on(t.hashedLink),
    unique('portal_sessions_hashed_token').on(t.hashedToken),
    index('portal_sessions_organization').on(t.organizationId, t.id),
    index('portal_sessions_member').on(t.memberId),
    index('portal_sessions_operator').on(t.operatorId),
    index('portal_sessions_expiry').on(t.expiresAt),
  ],
);
