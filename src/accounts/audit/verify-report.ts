import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { formatCount } from '../../core/pages/format.js';
import { OPERATOR_CHAIN } from './chain.js';
import type { ChainReport, NotedHead } from './verify.js';

export const areIntact = (reports: readonly ChainReport[]): boolean =>
  reports.every(({ problems }) => problems.length === 0);

export function toText(reports: readonly ChainReport[]): string {
  const begun = reports.filter(({ seq, unchained, problems }) => seq + unchained + problems.length > 0);
  const broken = begun.filter(({ problems }) => problems.length > 0);
  const entries = begun.reduce((sum, { seq }) => sum + seq, 0);
  const lines = begun.flatMap(({ organization, orgId, seq, hash, unchained, problems }) => {
    const state = problems.length > 0 ? 'BROKEN' : 'intact';
    const before = unchained > 0 ? `  (${formatCount(unchained, 'row')} from before the chain)` : '';
    const line = `${state}  ${organization}  ${orgId}  ${seq}  ${hash}${before}`;
    return [line, ...problems.map((problem) => `        ${problem}`)];
  });
  const chains = formatCount(begun.length, 'chain');
  if (begun.length === 0) lines.push('The audit log is empty.');
  else if (broken.length > 0) lines.push(`Broken: ${broken.length} of ${chains}.`);
  else lines.push(`Intact: ${chains}, ${formatCount(entries, 'row')}.`);
  return lines.join('\n');
}

/** One Organization per line. `--expect` reads this format. */
export const toHeads = (reports: readonly ChainReport[]): string =>
  `{"organizations":[\n${reports.map((report) => JSON.stringify(report)).join(',\n')}\n],"intact":${areIntact(reports)}}`;

export class NotedHeadsError extends Error {}

const notedSchema = z.object({
  organizations: z.array(
    z.object({
      organization: z.string(),
      orgId: z.union([z.uuid(), z.literal(OPERATOR_CHAIN)]),
      seq: z.int().min(0),
      hash: z.string().regex(/^[\da-f]{64}$/),
      unchained: z.int().min(0),
    }),
  ),
});

export async function readNotedHeads(file: string): Promise<NotedHead[]> {
  try {
    return notedSchema.parse(JSON.parse(await readFile(file, 'utf8'))).organizations;
  } catch (error) {
    const reason =
      error instanceof z.ZodError || error instanceof SyntaxError
        ? 'it is not output of this command with --json'
        : (error as Error).message;
    throw new NotedHeadsError(`${file} cannot be used: ${reason}.`, { cause: error });
  }
}
