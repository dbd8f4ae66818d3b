import type { Readable } from 'node:stream';
import { CommanderError } from 'commander';
import { AppError } from '../core/errors.js';
import { openInput } from '../send/input.js';
import { SendError } from '../send/record.js';
import { EvaluateError } from './evaluate-error.js';
import { evaluate } from './evaluate.js';
import type { EvaluateOptions } from './evaluation.js';
import { readingNotes, testingNotes } from './notes.js';
import { createEvaluateCommand, toEvaluateOptions, type Flags } from './options.js';
import { createProgressBar, type Screen } from './progress.js';
import { requireReportTarget, writeReport } from './report.js';
import { readCases, type FileCases } from './read-cases.js';

/** What the command has of the process that it runs in. */
export interface Terminal {
  /** The flags and the file, without the names of the program. */
  args: string[];
  stdin: Readable;
  stdout: { write(text: string): unknown };
  stderr: Screen;
}

const ROWS_PER_UPDATE = 1000;

/** Runs the command. Resolves to its exit status. */
export async function runEvaluateCommand(terminal: Terminal): Promise<number> {
  const { args, stdout, stderr } = terminal;
  const command = createEvaluateCommand()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    });
  try {
    command.parse(args, { from: 'user' });
    await evaluateFile(command.args[0]!, command.opts<Flags>(), terminal);
    return 0;
  } catch (error) {
    // Commander has already said what is wrong with the flags, or has printed the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const isExplained = [EvaluateError, SendError, AppError].some((known) => error instanceof known);
    if (!isExplained || !(error instanceof Error)) throw error;
    stderr.write(`evaluate: ${error.message}\n`);
    return 2;
  }
}

async function evaluateFile(name: string, flags: Flags, terminal: Terminal): Promise<void> {
  const { stdin, stdout, stderr } = terminal;
  const options = toEvaluateOptions(name, flags);
  if (flags.html !== undefined) await requireReportTarget(flags.html);
  const say = (notes: string[]) => notes.forEach((note) => stderr.write(`evaluate: ${note}\n`));
  const file = await readFile(options, stdin, stderr);
  say(readingNotes(file));
  const bar = createProgressBar(stderr, 'fitting');
  try {
    const evaluation = evaluate(options, file, (share) => bar.update(share));
    bar.stop();
    say(testingNotes(evaluation));
    stdout.write(`${JSON.stringify(evaluation.summary, null, 2)}\n`);
    if (flags.html !== undefined) await writeReport(evaluation, flags.html);
  } finally {
    bar.stop();
  }
}

async function readFile(options: EvaluateOptions, stdin: Readable, stderr: Screen): Promise<FileCases> {
  const input = openInput(options.file, stdin);
  const bar = createProgressBar(stderr, 'reading');
  let rows = 0;
  const onRow = () => {
    if (++rows % ROWS_PER_UPDATE === 0) bar.update(input.position / (input.size ?? Infinity));
  };
  try {
    return await readCases(input, options, onRow);
  } finally {
    bar.stop();
    input.close();
  }
}
