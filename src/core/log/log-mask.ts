const MASK = '[redacted]';

/** The shapes of what opens something here, wherever it stands: in an address, a header, the text of an error. */
const shapes: [pattern: RegExp, replacement: string][] = [
  // API keys, as they are or with percent-encoded characters.
  [/(org(?:_|%5F)(?:live|test)(?:_|%5F))(?:[\dA-Za-z]|%[\dA-Fa-f]{2}){8,}/gi, `$1${MASK}`],
  // Webhook secrets, in base64.
  [/(whsec(?:_|%5F))(?:[\w+/=-]|%[\dA-Fa-f]{2}){8,}/gi, `$1${MASK}`],
  [/(bearer(?:\s|%20|\+)+)[^\s"',;\\]+/gi, `$1${MASK}`],
  [/(gauge_\w{1,64}(?:\.sig)?=)[^;\s"\\]+/g, `$1${MASK}`],
  [/([?&](?:api[-_]?key|key|token|access_token|secret|password|code|invitation)=)[^&\s"#\\]+/gi, `$1${MASK}`],
  // The password of a database or of Redis.
  [/(\w:\/\/[^\s/:@"]*:)[^\s/@"]+(?=@)/g, `$1${MASK}`],
  [/-----BEGIN(?: |%20|\+)(?:[A-Z ]|%20|\+)*PRIVATE(?: |%20|\+)KEY-----(?:[^"\\]|\\[nr])*/g, MASK],
  // Tokens of sessions and of invitations: 256 bits, and 384, in base64url. Names in code have words, not both cases.
  [/(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?:[\w-]{43}|[\w-]{64})(?![\w-])/g, MASK],
  // The value of a session cookie: `{"sid":"…"}` in base64.
  [/eyJzaWQiOi(?:[\w+/=-]|%[\dA-Fa-f]{2})*/g, MASK],
  // Secrets of authenticator apps: 160 bits in base32.
  [/(?<![\w-])[A-Z2-7]{32}(?![\w-])/g, MASK],
  // Recovery codes.
  [/(?<![\w-])[\dA-HJKMNP-TV-Z]{4}(?:-[\dA-HJKMNP-TV-Z]{4}){3,7}(?![\w-])/g, MASK],
];

/** A line that has none of these has no secret: most lines are told at the cost of two searches, each from the beginnings of words. */
const hint =
  /org(?:_|%5F)|whsec|eyJzaWQiOi|bearer|gauge_|[?&]\w|:\/\/|PRIVATE(?: |%20|\+)KEY|(?<![\w-])[\w-]{43}/i;
/** Secrets that consist of capitals. Ignoring case, every UUID would look like a recovery code. */
const capitalsHint = /(?<![\w-])(?:[\dA-Z]{4}-[\dA-Z]{4}-|[A-Z2-7]{32})/;

export type Mask = (text: string) => string;

/**
 * Takes secrets out of a text: what looks like one of ours, and the values themselves that the configuration holds.
 * @param values secrets that are known word by word
 */
export function createMask(values: readonly string[]): Mask {
  const known = values.flatMap((value) => [
    value,
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
  ]);
  const escaped = [...new Set(known)].map((value) => value.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
  const literal = escaped.length === 0 ? undefined : new RegExp(escaped.join('|'), 'g');
  return (text) => {
    let masked = literal ? text.replace(literal, MASK) : text;
    if (hint.test(masked) || capitalsHint.test(masked))
      for (const [pattern, replacement] of shapes) masked = masked.replace(pattern, replacement);
    return masked;
  };
}

/** Too short to be a secret: masking it would make the log unreadable. */
const MIN_LENGTH = 8;

/** The secrets in an environment: the variables that are named as such, each of a list, and passwords in addresses. */
export function secretsIn(env: Record<string, string | undefined>): string[] {
  const found = Object.entries(env).flatMap(([name, value = '']) => [
    ...(URL.canParse(value) ? [passwordIn(value)] : []),
    ...(/(^|_)(KEYS?|TOKENS?|SECRETS?|PASSWORDS?)$/.test(name) ? listed(value) : []),
  ]);
  return [...new Set(found)].filter((value) => value.length >= MIN_LENGTH);
}

/** The parts of a list that commas or spaces separate. A token with a name (`billing:token`) counts without it, too. */
const listed = (value: string): string[] =>
  [...value.split(','), ...value.split(/[,\s]+/)]
    .map((part) => part.trim())
    .flatMap((part) => [part, part.replace(/^[\da-z-]{1,32}:/, '')]);

/** Of a variable that is not Gauge's it may be anything. */
function passwordIn(url: string): string {
  const { password } = new URL(url);
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

/** The path of an address as it may be logged: decoded where only that shows what it holds. */
export function maskPath(url: string, mask: Mask): string {
  const path = url.split('?', 1)[0]!;
  const decoded = decodePath(path);
  const masked = mask(decoded);
  return masked === decoded ? path : masked;
}

/** A path that is not UTF-8 has only its ASCII decoded, so that a secret beside the broken bytes is still recognised. */
function decodePath(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/%[0-7][\dA-F]/gi, decodeURIComponent);
  }
}
