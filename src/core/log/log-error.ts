import { isDatabaseUnavailable, sqlState } from '../db/client.js';

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
export function describeError(error: unknown, depth = 0): unknown {
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
