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

/** JSON lines with the time in ISO 8601. */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const stream =
    destination ?? pino.destination({ dest: 1, sync: false, minLength: 4096, periodicFlush: 500 });
  return pino(
    { level, redact: { paths, censor: '[redacted]' }, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    stream,
  );
}
