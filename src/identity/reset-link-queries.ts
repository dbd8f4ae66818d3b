import { and, eq, isNull } from 'drizzle-orm';
import type { Tx } from '../core/db/client.js';
import { oneTimeLinks, type LinkKind } from './table.js';

/** What was lost is there again: links that are still on their way would let another person choose it anew. */
export async function deleteOpenLinks(tx: Tx, userId: string, kind: LinkKind): Promise<void> {
  await tx
    .delete(oneTimeLinks)
    .where(and(eq(oneTimeLinks.userId, userId), eq(oneTimeLinks.kind, kind), isNull(oneTimeLinks.usedAt)));
}
