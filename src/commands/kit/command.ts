import type { Readable } from 'node:stream';
import { CommanderError, InvalidArgumentError, type Command } from 'commander';
import { useProxies } from '../../core/http/proxy.js';
import { onStopSignal } from '../../core/stop-signals.js';
import { printableLines } from '../../core/terminal.js';
import type { Screen } from './progress.js';
import { isSecureUrl } from '../../core/config.js';

export interface Terminal {
  /** Flags and files, without the program name. */
  args: string[];
  stdin: Readable;
  stdout: { write(text: string): unknown };
  stderr: Screen;
}

/** An error that the user can correct, such as a wrong flag or an unreadable file. */
export class CommandError extends Error {
  override name = 'CommandError';
}

/**
 * The terminal of this process. Write errors are ignored: with `| head`, the reader closes early but the exit status
 * still matters.
 */
export function openTerminal(): Terminal {
  const { argv, stdin, stdout, stderr } = process;
  for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
  return { args: argv.slice(2), stdin, stdout, stderr };
}

/**
 * Aborts on the first SIGINT or SIGTERM, so that the work in progress can finish. The second signal ends the process
 * immediately.
 */
export function listenForInterrupt(reason?: Error): AbortSignal {
  const interrupt = new AbortController();
  onStopSignal(
    () => interrupt.abort(reason),
    () => process.exit(130),
  );
  return interrupt.signal;
}

/** Resolves to the exit status. */
type Work<Flags> = (flags: Flags, files: string[]) => Promise<number>;

/**
 * Parses the flags and runs `work`. Resolves to its exit status, or to 2 if it failed.
 * @param explain returns a sentence for errors that are not bugs
 */
export async function runCommand<Flags extends object>(
  command: Command,
  { args, stdout, stderr }: Pick<Terminal, 'args' | 'stdout' | 'stderr'>,
  work: Work<Flags>,
  explain: (error: unknown) => string | undefined = () => undefined,
): Promise<number> {
  command.exitOverride().configureOutput({
    writeOut: (text) => stdout.write(text),
    writeErr: (text) => stderr.write(text),
  });
  try {
    command.parse(args, { from: 'user' });
    await useProxies();
    return await work(command.opts<Flags>(), command.args);
  } catch (error) {
    // Commander has already printed the error or the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const sentence = error instanceof CommandError ? error.message : explain(error);
    const bug = error instanceof Error ? (error.stack ?? error.message) : String(error);
    stderr.write(`${command.name()}: ${printableLines(sentence ?? bug)}\n`);
    return 2;
  }
}

const fileErrors = new Set(['ENOENT', 'EACCES', 'EISDIR', 'ENOTDIR']);

/**
 * Creates an `explain` function. It returns the message of an error of these classes or of a file error, and undefined
 * for other errors.
 */
export const messageOf =
  (...kinds: (abstract new (...args: never[]) => Error)[]) =>
  (error: unknown): string | undefined =>
    error instanceof Error &&
    (kinds.some((kind) => error instanceof kind) ||
      fileErrors.has((error as NodeJS.ErrnoException).code ?? ''))
      ? error.message
      : undefined;

/**
 * Returns the URL of a running service without a trailing slash. The default has the port of the same `.env`.
 * @param source name of the flag or variable, for the error
 * @throws CommandError
 */
export function readServiceUrl(value: string | undefined, source: string, allowPlain?: string): string {
  const text = value?.trim() || `http://127.0.0.1:${process.env.PORT || 3000}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    throw new CommandError(`${source} must be an address like https://gauge.example.com`);
  if (!isSecureUrl(text) && allowPlain !== 'yes')
    throw new CommandError(
      `${source} must be https, because keys are sent to it. Only this machine may use http. To send them unencrypted in a network that you trust, set GAUGE_ALLOW_HTTP=yes`,
    );
  return text.replace(/\/+$/, '');
}

export const wholeFrom =
  (least: number, most: number) =>
  (value: string): number => {
    const number = Number(value);
    if (!/^\d{1,6}$/.test(value) || number < least || number > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return number;
  };

/** True for an existing calendar date, YYYY-MM-DD. Date.parse alone would read April 31 as May 1. */
export function isDate(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

export function dateFlag(value: string): string {
  if (!isDate(value)) throw new InvalidArgumentError('It must be a date like 2026-10-01.');
  return value;
}
