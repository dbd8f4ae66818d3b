import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { formatCount } from '../../core/pages/format.js';
import { printable } from '../../core/terminal.js';
import { OPERATOR_CHAIN, type ChainProblem } from './chain.js';
import type { ChainReport, NotedHead } from './verify.js';

export interface ReportWriter {
  add(report: ChainReport): void;
  end(): boolean;
}

type Write = (line: string) => void;

/** One line per chain, followed by its problems. */
export function textWriter(write: Write): ReportWriter {
  let chains = 0;
  let entries = 0;
  let broken = 0;
  return {
    add(report) {
      const { organization, orgId, seq, hash, unchained, problems, problemCount } = report;
      if (seq === 0 && problemCount === 0 && unchained === 0) return;
      chains++;
      entries += seq;
      if (problemCount > 0) broken++;
      const state = problemCount > 0 ? 'BROKEN' : 'intact';
      const before = unchained > 0 ? `  (${formatCount(unchained, 'row')} from before the chain)` : '';
      write(`${state}  ${organization}  ${orgId}  ${seq}  ${hash}${before}`);
      for (const problem of problems) write(`        ${problemText(problem)}`);
      const more = problemCount - problems.length;
      if (more > 0) write(`        … and ${more} more`);
    },
    end() {
      if (chains === 0) write('The audit log is empty.');
      else if (broken === 0)
        write(`Intact: ${formatCount(chains, 'chain')}, ${formatCount(entries, 'row')}.`);
      else write(`Broken: ${broken} of ${formatCount(chains, 'chain')}.`);
      return broken === 0;
    },
  };
}

/** One Organization per line. `--expect` reads this format. */
export function jsonWriter(write: Write): ReportWriter {
  let isIntact = true;
  // Holds back each line until it is known whether the line needs a comma.
  let line = '{"organizations":[';
  let comma = '';
  return {
    add(report) {
      if (report.problemCount > 0) isIntact = false;
      write(line + comma);
      line = JSON.stringify(report);
      comma = ',';
    },
    end() {
      write(line);
      write(`],"intact":${isIntact}}`);
      return isIntact;
    },
  };
}

function problemText({ kind, seq, id, action, detail }: ChainProblem): string {
  const row = seq === null ? 'row without a number' : `row ${seq}`;
  const name = id === null ? '' : ` (${action ?? ''}, ${id})`;
  return printable(`${kind}: ${id === null && seq === null ? '' : `${row}${name}: `}${detail}`);
}

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

/** @throws NotedHeadsError */
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
