import { access, rename, writeFile } from 'node:fs/promises';
import type { Orm } from '../../core/db/client.js';
import type { Job } from '../../core/db/jobs.js';
import type { Context } from '../../core/http/context.js';
import { areIntact, readNotedHeads, toHeads } from './verify-report.js';
import { verifyChains } from './verify.js';

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
      else log.error('the audit log was altered, and its heads were not exported; run audit:verify');
    } catch (error) {
      metrics.auditExports.inc({ outcome: 'failed' });
      throw error;
    }
  };
  return [{ name: 'export-audit-heads', schedule, run }];
}

const TIMEOUT_MS = 30_000;

/**
 * Checks the chains against the heads in a file before overwriting it, so that a rewritten history never replaces the
 * evidence against it. Writes nothing if a chain is broken.
 * @throws NotedHeadsError; Error if the heads cannot be written
 */
export async function exportHeads(orm: Orm, target: string) {
  const isUrl = /^https?:/.test(target);
  const noted = !isUrl && (await exists(target)) ? await readNotedHeads(target) : undefined;
  const reports = await verifyChains(orm, { noted });
  const isIntact = areIntact(reports);
  const heads = `${toHeads(reports)}\n`;
  if (isIntact) await (isUrl ? putTo(target, heads) : replaceFile(target, heads));
  return { isIntact, chains: reports.length };
}

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

async function replaceFile(file: string, text: string): Promise<void> {
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, file);
}

async function putTo(url: string, body: string): Promise<void> {
  const response = await fetch(url, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body,
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await response.body?.cancel();
  if (!response.ok)
    throw new Error(`The receiver refused the audit log's heads with status ${response.status}.`);
}
