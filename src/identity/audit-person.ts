import { recordOperatorAudit, type AuditEntry } from '../audit/audit.js';
import type { Tx } from '../core/db/client.js';
import { countRecoveryCodes } from './second-factor/queries.js';

/** When and from where a person did something to their own account. */
export type Whereabouts = Pick<AuditEntry, 'at' | 'ip' | 'requestId'>;

/** People belong to no Organization: what they do to their accounts, and signing in, is in the operator's log. */
export function auditPerson(
  tx: Tx,
  { userId, email }: { userId: string; email: string },
  action: string,
  { at, ip, requestId }: Whereabouts,
  details: AuditEntry['details'] = {},
): Promise<void> {
  return recordOperatorAudit(tx, { at, action, actor: userId, target: email, details, ip, requestId });
}

/** That a recovery code was used up, and how many are left. */
export async function auditRecoveryCode(
  tx: Tx,
  person: { userId: string; email: string },
  where: Whereabouts,
): Promise<void> {
  const left = await countRecoveryCodes(tx, person.userId);
  await auditPerson(tx, person, 'user.recovery_code_used', where, { left });
}
