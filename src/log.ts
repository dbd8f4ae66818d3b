import pino, { type DestinationStream, type Logger } from 'pino';

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

const timestamp = pino.stdTimeFunctions.isoTime;

/** JSON lines with the time in ISO 8601; whatever looks like a credential is left out. */
export function createLogger(level: string, stream: DestinationStream): Logger {
  return pino({ level, redact: { paths, censor: '[redacted]' }, base: null, timestamp }, stream);
}

/**
 * For the line that each request gets. It names its few fields itself, none of which can hold a credential, and so
 * goes without the redaction, which would be the dearest part of a small request.
 */
export function createAccessLog(level: string, stream: DestinationStream): Logger {
  return pino({ level, base: null, timestamp }, stream);
}
