import pino, { type DestinationStream, type Logger } from 'pino';
import { describeError } from './log-error.js';
import { createMask } from './log-mask.js';

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
 * For the line that each request gets. Of its few fields the caller writes two, and only those are looked through: the
 * whole line would be the dearest part of a small request.
 */
export function createAccessLog(
  level: string,
  stream: DestinationStream,
  known: readonly string[] = [],
): Logger {
  const mask = createMask(known);
  return pino({ ...common, level, serializers: { path: mask, requestId: mask } }, stream);
}
