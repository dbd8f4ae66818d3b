import type { DestinationStream, Logger } from 'pino';
import pino from 'pino';
import { isDatabaseUnavailable, sqlState } from '../db/client.js';
import { printable } from '../terminal.js';
import { createMask } from './log-mask.js';

const MAX_CAUSES = 5;

interface Described {
  type: string;
  message: string;
  [field: string]: unknown;
}

/**
 * Fields of a database error that name parts of the schema. The other fields (detail, where, hint) may contain values.
 */
const schemaFields = ['severity', 'schema', 'table', 'column', 'constraint', 'routine'] as const;

/**
 * Describes an error for the log. Omits the values of a failed statement, which are customer data, and the stack of an
 * outage, which does not show the cause.
 */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error))
    return typeof error === 'string' ? { type: 'string', message: error } : { type: typeof error };
  const fields = error as Error & Record<string, unknown>;
  const { name, code, cause } = fields;
  const message = messageOf(fields);
  const described: Described = { type: fields.constructor?.name ?? name, message };
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

/** Returns the stack with `message` instead of the lines that repeat the original message. */
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

/** Control characters that a terminal would interpret, as escaped in JSON, except line breaks and tabs. */
const obeyed = /\\(?:\\|u00[01][\da-f]|[bfr])|[\u007f-\u009f]/gi;

function describeRequest(line: Record<string, unknown>): string {
  const { msg, method, path, status, ms, requestId } = line as Record<string, string | number | undefined>;
  if (method === undefined) return String(msg);
  const request = `${String(method)} ${printable(String(path))} ${String(status)} in ${String(ms)} ms`;
  const id = Number(status) >= 400 ? ` (${String(requestId)})` : '';
  return `${msg === 'request' ? '' : `${String(msg)}: `}${request}${id}`;
}

/** Formats lines for a person at a terminal. Writes synchronously, so lines stay in order and none is lost on exit. */
export async function createTerminalStream(
  output: Pick<NodeJS.WriteStream, 'write'>,
): Promise<DestinationStream> {
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

/** Number of buffered characters at which lines are written. Lines are also written after half a second. */
const BLOCK_LENGTH = 16_384;

/**
 * Writes lines to standard output in blocks, because a write per line would cost more than the request that it logs.
 * pino's own buffer measures its whole content again for each line ("JSON and HTTP by hand" in bench/README.md).
 */
export function createBlockStream(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: false });
  let lines = '';
  function pass(): void {
    if (lines === '') return;
    output.write(lines);
    lines = '';
  }
  setInterval(pass, 500).unref();
  return {
    write(line) {
      lines += line;
      if (lines.length >= BLOCK_LENGTH) pass();
    },
    flushSync() {
      pass();
      output.flushSync();
    },
  };
}

const common = { base: null, timestamp: pino.stdTimeFunctions.isoTime };

/**
 * Logs JSON lines with ISO 8601 times and masks credentials.
 * @param known configured secrets, masked literally
 */
export function createLogger(
  level: string,
  stream: DestinationStream,
  known: readonly string[] = [],
): Logger {
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
 * A log without masking, for the line that shows the set-up link and for request lines, whose fields are masked
 * individually. Searching whole lines would be the most expensive part of a small request.
 */
export const createPlainLog = (level: string, stream: DestinationStream): Logger =>
  pino({ ...common, level }, stream);
