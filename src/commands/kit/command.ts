import type { Readable } from 'node:stream';
import { CommanderError, InvalidArgumentError, type Command } from 'commander';
import { useProxies } from '../../core/http/proxy.js';
import { onStopSignal } from '../../core/stop-signals.js';
import { printableLines } from '../../core/terminal.js';
import type { Screen } from './progress.js';
import { ConfigError, isSecureUrl } from '../../core/config.js';

export interface Terminal {
  /** Without the program name. */
  args: string[];
  stdin: Readable;
  stdout: { write(text: string): unknown };
  stderr: Screen;
}

/** The user can correct it. */
export class CommandError extends Error {
  override name = 'CommandError';
}

/** With `| head`, the reader closes early but the exit status still matters. */
export function openTerminal(): Terminal {
  const { argv, stdin, stdout, stderr } = process;
  for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
  return { args: argv.slice(2), stdin, stdout, stderr };
}

/** The first signal lets the work in progress finish, the second ends the process. */
export function listenForInterrupt(reason?: Error): AbortSignal {
  const interrupt = new AbortController();
  onStopSignal(
    () => interrupt.abort(reason),
    () => process.exit(130),
  );
  return interrupt.signal;
}

type Work<Flags> = (flags: Flags, files: string[]) => Promise<number>;

/**
 * The exit status is 2 if `work` failed.
 * @param explain a sentence for errors that are not bugs
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
    // Commander has already printed it.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const isForUser = error instanceof CommandError || error instanceof ConfigError;
    const sentence = isForUser ? error.message : explain(error);
    const bug = error instanceof Error ? (error.stack ?? error.message) : String(error);
    stderr.write(`${command.name()}: ${printableLines(sentence ?? bug)}\n`);
    return 2;
  }
}

const fileErrors = new Set(['ENOENT', 'EACCES', 'EISDIR', 'ENOTDIR']);

/** For errors of these classes and file errors; undefined for others. */
export const messageOf =
  (...kinds: (abstract new (...args: never[]) => Error)[]) =>
  (error: unknown): string | undefined =>
    error instanceof Error &&
    (kinds.some((kind) => error instanceof kind) ||
      fileErrors.has((error as NodeJS.ErrnoException).code ?? ''))
      ? error.message
      : undefined;

/**
 * Without a trailing slash. The default has the port of the same `.env`.
 * @param source name of the flag or variable, for the error
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

/** Date.parse alone would read April 31 as May 1. */
export function isDate(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

export function dateFlag(value: string): string {
  if (!isDate(value)) throw new InvalidArgumentError('It must be a date like 2026-10-01.');
  return value;
}
