import { CommanderError } from 'commander';
import { printable } from './numbers.js';
import { createSendCommand, toSendOptions, type Flags } from './options.js';
import { SendError } from './record.js';
import { sendFile, type SendSurroundings } from './send.js';
import { summaryText } from './summary.js';

/** What the command has of the process that it runs in. */
export interface Terminal extends SendSurroundings {
  /** The flags and the file, without the names of the program. */
  args: string[];
  env: Record<string, string | undefined>;
  stdout: { write(text: string): unknown };
}

/** Runs the command. Resolves to its exit status; an interrupted run is 130. */
export async function runSendCommand(terminal: Terminal): Promise<number> {
  const { args, env, stdout, stderr, interrupt } = terminal;
  const command = createSendCommand()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    });
  try {
    command.parse(args, { from: 'user' });
    const options = toSendOptions(command.args[0]!, command.opts<Flags>(), env);
    const summary = await sendFile(options, terminal);
    stdout.write(`${options.isJson ? JSON.stringify(summary) : summaryText(summary)}\n`);
    if (summary.stopReason !== undefined) stderr.write(`send: ${printable(summary.stopReason)}\n`);
    if (summary.state === 'stopped') return interrupt.aborted ? 130 : 2;
    return summary.rejected > 0 ? 1 : 0;
  } catch (error) {
    // Commander has already said what is wrong with the flags, or has printed the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof SendError)) throw error;
    stderr.write(`send: ${printable(error.message)}\n`);
    return 2;
  }
}
