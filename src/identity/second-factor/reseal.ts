import type { Database } from '../../core/db/client.js';
import { listStaleSecrets, replaceSecret } from './queries.js';
import type { SecretBox } from './secret-box.js';

const BATCH = 100;

/**
 * Encrypts anew what is stored in clear, from earlier versions, or under an older key: after it has run the older key
 * is needed no more. Rows that are replaced meanwhile are left alone.
 */
export async function resealSecrets({ orm }: Pick<Database, 'orm'>, secrets: SecretBox): Promise<number> {
  let resealed = 0;
  for (let after: string | undefined; ;) {
    const rows = await listStaleSecrets(orm, secrets.currentPrefix, after, BATCH);
    for (const { userId, secret: from } of rows) {
      const to = secrets.seal(userId, secrets.open(userId, from));
      if (await replaceSecret(orm, { userId, from, to })) resealed++;
    }
    if (rows.length < BATCH) return resealed;
    after = rows.at(-1)!.userId;
  }
}
