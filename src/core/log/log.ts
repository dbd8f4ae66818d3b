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

/** Fields of a database error that name parts of the schema. Its other ones (detail, where, hint) repeat values. */
const schemaFields = ['severity', 'schema', 'table', 'column', 'constraint', 'routine'] as const;

/**
 * An error for the log. What a statement was about is told without its values, which are the customers'; what the
 * database's absence broke is told without a stack, which would lead to no cause.
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
  // The ORM's: the statement, and its parameters after it.
  if (typeof error.query === 'string' && 'params' in error && !isFromDatabase(error))
    return `Failed query: ${error.query}`;
  // Class 22 says which value it could not take.
  if (isFromDatabase(error) && String(error.code).startsWith('22')) return 'A value does not fit its type.';
  return error.message;
}

/** The stack without its first lines, which repeat the message. */
function framesOf({ name, stack = '' }: Error, message: string): string {
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return [`${name}: ${message}`, ...frames].join('\n');
}

/** Whatever could carry a credential, wherever a log call puts it. */
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

/** Characters that a terminal obeys, as they stand in JSON; line ends and tabs are harmless. */
const obeyed = /\\(?:\\|u00[01][\da-f]|[bfr])|[\u007f-\u009f]/gi;

/** A request in one line: its id is of use where something was refused. */
function describeRequest(line: Record<string, unknown>): string {
  const { msg, method, path, status, ms, requestId } = line as Record<string, string | number | undefined>;
  if (method === undefined) return String(msg);
  const request = `${String(method)} ${printable(String(path))} ${String(status)} in ${String(ms)} ms`;
  const id = Number(status) >= 400 ? ` (${String(requestId)})` : '';
  return `${msg === 'request' ? '' : `${String(msg)}: `}${request}${id}`;
}

/**
 * Lines for a person, where standard output is a terminal. They are written at once, in this process: what is printed beside
 * them keeps its place, and the last ones are there when the process ends.
 */
export async function createTerminalStream(
  output: Pick<NodeJS.WriteStream, 'write'>,
): Promise<DestinationStream> {
  // Only a terminal needs it.
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

const common = { base: null, timestamp: pino.stdTimeFunctions.isoTime };

/**
 * JSON lines with the time in ISO 8601; whatever looks like a credential is left out.
 * @param known secrets that the configuration holds, masked word by word
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
      // The finished line, so that nothing gets past it.
      hooks: { streamWrite: createMask(known) },
    },
    stream,
  );
}

/**
 * Masks nothing: for the line that shows the set-up link, and for the line of each request, whose fields are masked one by
 * one. Searching the whole line would be the most expensive part of a small request.
 */
export const createPlainLog = (level: string, stream: DestinationStream): Logger =>
  pino({ ...common, level }, stream);
