import { randomUUID } from 'node:crypto';
import { lstat, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { AppError } from '../core/errors.js';
import * as ui from '../core/pages/format.js';
import type { Evaluation } from './evaluation.js';
import { toReportView } from './report-view.js';

/** Two levels up both from the sources and from what is built of them. */
const views = fileURLToPath(new URL('../../views', import.meta.url));

/**
 * Says before the work begins what would keep its report from being written.
 * @throws AppError invalid_request if there is no such folder, or if what is there is no ordinary file
 */
export async function requireReportTarget(file: string): Promise<void> {
  const target = resolve(file);
  const folder = await stat(dirname(target)).catch(() => undefined);
  if (!folder?.isDirectory()) throw refuse(file, `there is no folder ${dirname(target)}`);
  // It is put in the place of what is there, which must not be a device or a link to somewhere.
  const found = await lstat(target).catch(() => undefined);
  if (found && !found.isFile()) throw refuse(file, 'what is there is no ordinary file');
}

/**
 * Writes the evaluation as one HTML file that needs nothing else: it opens offline, in both colour schemes, and prints.
 * It is there whole or not at all, in place of what was there before.
 * @throws AppError invalid_request as `requireReportTarget` does, or if it cannot be written
 */
export async function writeReport(evaluation: Evaluation, file: string): Promise<void> {
  await requireReportTarget(file);
  const target = resolve(file);
  const html = await renderReport(evaluation);
  const written = `${target}.${randomUUID()}.tmp`;
  try {
    await writeFile(written, html, { flag: 'wx' });
    await rename(written, target);
  } catch (error) {
    await rm(written, { force: true });
    throw refuse(file, (error as Error).message, error);
  }
}

const refuse = (file: string, reason: string, cause?: unknown): AppError =>
  new AppError('invalid_request', `The report cannot be written to ${file || "''"}: ${reason}.`, { cause });

async function renderReport(evaluation: Evaluation): Promise<string> {
  const [css, ownCss] = await Promise.all(
    ['assets/gauge.css', 'evaluate/report.css'].map((name) => readFile(`${views}/${name}`, 'utf8')),
  );
  return ejs.renderFile(`${views}/evaluate/report.ejs`, {
    ...toReportView(evaluation),
    css: `${css}\n${ownCss}`,
    ui,
  });
}
