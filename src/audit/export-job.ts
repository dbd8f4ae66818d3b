import type { Context } from '../core/http/context.js';
import type { Job } from '../core/db/jobs.js';
import { exportHeads } from './export-heads.js';

/** Writes the heads of the audit log where the configuration says, on its schedule. What fails is logged and counted. */
export function auditExportJobs({
  config,
  db,
  log,
  metrics,
}: Pick<Context, 'config' | 'db' | 'log' | 'metrics'>): Job[] {
  if (!config.auditExport) return [];
  const { target, schedule } = config.auditExport;
  const run = async () => {
    try {
      const { isIntact, chains } = await exportHeads(db.orm, target);
      metrics.auditExports.inc({ outcome: isIntact ? 'written' : 'broken' });
      if (isIntact) log.info({ chains }, 'the heads of the audit log were exported');
      else log.error('the audit log is not as it was written; run audit:verify. Its heads were not exported');
    } catch (error) {
      metrics.auditExports.inc({ outcome: 'failed' });
      throw error;
    }
  };
  return [{ name: 'export-audit-heads', schedule, run }];
}
