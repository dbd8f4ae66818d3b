import { write as writeBytes } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import type { DestinationStream, Logger } from 'pino';
import pino from 'pino';
import { isDatabaseUnavailable, sqlState } from '../db/client.js';
import { printable } from '../terminal.js';
import { createMask } from './log-mask.js';

const MAX_CAUSES = 5;

/** The other fields of a database error (detail, where, hint) may contain values. */
const schemaFields = ['severity', 'schema', 'table', 'column', 'constraint', 'routine'] as const;

/** Omits the values of a failed statement, which are customer data, and the stack of an outage. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error))
    return typeof error === 'string' ? { type: 'string', message: error } : { type: typeof error };
  const fields = error as Error & Record<string, unknown>;
  const { name, code, cause } = fields;
  const message = messageOf(fields);
  const described: Record<string, unknown> = { type: fields.constructor?.name ?? name, message };
  if (code !== undefined) described.code = code;
  if (isFromDatabase(fields))
    for (const field of schemaFields) if (fields[field] !== undefined) described[field] = fields[field];
  if (!isDatabaseUnavailable(error)) described.stack = framesOf(fields, message);
  if (depth < MAX_CAUSES && cause !== undefined) described.cause = describeError(cause, depth + 1);
  if (depth < MAX_CAUSES && error instanceof AggregateError)
    described.errors = error.errors.slice(0, MAX_CAUSES).map((one) => describeError(one, depth + 1));
  return described;
}

const isFromDatabase = (error: Record<string, unknown>): boolean =>
  typeof error.severity === 'string' && sqlState(error) !== undefined;

function messageOf(error: Error & Record<string, unknown>): string {
  // The ORM's message contains the statement and its parameters.
  if (typeof error.query === 'string' && 'params' in error && !isFromDatabase(error))
    return `Failed query: ${error.query}`;
  // Messages of SQLSTATE class 22 contain the invalid value.
  if (isFromDatabase(error) && String(error.code).startsWith('22')) return 'A value does not fit its type.';
  return error.message;
}

function framesOf({ name, stack = '' }: Error, message: string): string {
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return [`${name}: ${message}`, ...frames].join('\n');
}

/** Fields that may hold a credential, wherever a log call puts them. */
const secrets = [
  'authorization',
  'cookie',
  'set-cookie',
  'password',
  'secret',
  'token',
  'hashedSecret',
  'passwordHash',
];
const paths = secrets.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]);

/** Control characters that a terminal would interpret, as escaped in JSON. */
const obeyed = /\\(?:\\|u00[01][\da-f]|[bfr])|[\u007f-\u009f]/gi;

function describeRequest(line: Record<string, unknown>): string {
  const { msg, method, path, status, ms, requestId } = line as Record<string, string | number | undefined>;
  if (method === undefined) return String(msg);
  const request = `${String(method)} ${printable(String(path))} ${String(status)} in ${String(ms)} ms`;
  const id = Number(status) >= 400 ? ` (${String(requestId)})` : '';
  return `${msg === 'request' ? '' : `${String(msg)}: `}${request}${id}`;
}

/** Writes synchronously, so lines stay in order and none is lost on exit. */
export async function createTerminalStream(output: {
  write(text: string): unknown;
}): Promise<DestinationStream> {
  const { prettyFactory } = await import('pino-pretty');
  const format = prettyFactory({
    translateTime: 'SYS:HH:MM:ss',
    ignore: 'method,path,status,ms,ip,requestId,userId,orgId,keyId',
    messageFormat: describeRequest,
    singleLine: true,
  });
  return {
    write(line) {
      output.write(format(line.replace(obeyed, (found) => (found === '\\\\' ? found : ' '))));
    },
  };
}

/** Characters. Lines are also written after half a second. */
const BLOCK_LENGTH = 16_384;
/** Characters that wait for a slow reader or a full disk. Further lines are lost. */
const MAX_WAITING = 8 * 1024 * 1024;
const LAST_LINES_MS = 2_000;

interface BlockStream extends DestinationStream {
  /** Gives up when nobody has read the lines for two seconds. */
  flush(): Promise<void>;
}

/**
 * A write per line would cost more than the request that it logs, and pino's own buffer measures its whole content for
 * each line ("JSON and HTTP by hand" in bench/README.md) and waits for ever for a reader that has stopped. After EPIPE
 * the service goes on without a log, otherwise until a later write succeeds.
 */
export function createBlockStream(onFailure: (error: NodeJS.ErrnoException) => void): BlockStream {
  let lines = '';
  let block: Uint8Array = new Uint8Array();
  let writing: Promise<void> | undefined;
  let isBroken = false;
  let hasFailed = false;
  const isDone = () => isBroken || (lines === '' && block.length === 0);

  async function writeAll(): Promise<void> {
    try {
      while (!isDone()) {
        if (block.length === 0) {
          block = Buffer.from(lines);
          lines = '';
        }
        block = block.subarray(await writeSome(block));
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      isBroken = code === 'EPIPE';
      // A reader that is only slow is no failure.
      if (code !== 'EAGAIN' && !hasFailed) onFailure(error as NodeJS.ErrnoException);
      hasFailed ||= code !== 'EAGAIN';
    }
  }
  const pass = () => (writing ??= writeAll().finally(() => (writing = undefined)));
  setInterval(() => void pass(), 500).unref();
  return {
    write(line) {
      if (isBroken || lines.length > MAX_WAITING) return;
      lines += line;
      if (lines.length >= BLOCK_LENGTH) void pass();
    },
    async flush() {
      const end = performance.now() + LAST_LINES_MS;
      while (!isDone() && performance.now() < end) {
        await Promise.race([pass(), setTimeout(LAST_LINES_MS)]);
        if (!isDone()) await setTimeout(20);
      }
    },
  };
}

const writeSome = (block: Uint8Array): Promise<number> =>
  new Promise((resolve, reject) => {
    writeBytes(1, block, (error, written) => (error ? reject(error) : resolve(written)));
  });

const common = { base: null, timestamp: pino.stdTimeFunctions.isoTime };

/** @param known configured secrets, masked literally */
export function createLogger(level: string, stream: DestinationStream, known: readonly string[] = []) {
  return pino(
    {
      ...common,
      level,
      redact: { paths, censor: '[redacted]' },
      serializers: { err: describeError },
      // Masks the finished line, so that no field is missed.
      hooks: { streamWrite: createMask(known) },
    },
    stream,
  );
}

/**
 * Not masked, for the set-up link and for request lines, whose fields are masked individually: searching whole lines
 * would be the most expensive part of a small request.
 */
export const createPlainLog = (level: string, stream: DestinationStream): Logger =>
  pino({ ...common, level }, stream);
