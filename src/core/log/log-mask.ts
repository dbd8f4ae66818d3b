const MASK = '[redacted]';

/** Our credentials may occur in a URL, a header or an error message. */
const shapes: [pattern: RegExp, replacement: string][] = [
  // API keys and service keys, plain or percent-encoded.
  [/((?:org|service)(?:_|%5F)(?:live|test)(?:_|%5F))(?:[\dA-Za-z]|%[\dA-Fa-f]{2}){8,}/gi, `$1${MASK}`],
  // Webhook secrets in base64.
  [/(whsec(?:_|%5F))(?:[\w+/=-]|%[\dA-Fa-f]{2}){8,}/gi, `$1${MASK}`],
  [/(bearer(?:\s|%20|\+)+)[^\s"',;\\]+/gi, `$1${MASK}`],
  [/(gauge_\w{1,64}(?:\.sig)?=)[^;\s"\\]+/g, `$1${MASK}`],
  [/([?&](?:api[-_]?key|key|token|access_token|secret|password|code|invitation)=)[^&\s"#\\]+/gi, `$1${MASK}`],
  // Passwords in database and Redis URLs.
  [/(\w:\/\/[^\s/:@"]*:)[^\s/@"]+(?=@)/g, `$1${MASK}`],
  [/-----BEGIN(?: |%20|\+)(?:[A-Z ]|%20|\+)*PRIVATE(?: |%20|\+)KEY-----(?:[^"\\]|\\[nr])*/g, MASK],
  // Session tokens (256 bits) and invitation tokens (384 bits) in base64url. Requiring both upper and lower case
  // excludes names in code.
  [/(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?:[\w-]{43}|[\w-]{64})(?![\w-])/g, MASK],
  // Value of a session cookie: `{"sid":"…"}` in base64.
  [/eyJzaWQiOi(?:[\w+/=-]|%[\dA-Fa-f]{2})*/g, MASK],
  // Authenticator secrets: 160 bits in base32.
  [/(?<![\w-])[A-Z2-7]{32}(?![\w-])/g, MASK],
  // Recovery codes.
  [/(?<![\w-])[\dA-HJKMNP-TV-Z]{4}(?:-[\dA-HJKMNP-TV-Z]{4}){3,7}(?![\w-])/g, MASK],
];

/** Most lines need only this search and `capitalsHint`: a line that matches neither contains no secret. */
const hint =
  /(?:org|service)(?:_|%5F)|whsec|eyJzaWQiOi|bearer|gauge_|[?&]\w|:\/\/|PRIVATE(?: |%20|\+)KEY|(?<![\w-])[\w-]{43}/i;
/** Matches secrets in capitals. Ignoring case would mistake every UUID for a recovery code. */
const capitalsHint = /(?<![\w-])(?:[\dA-Z]{4}-[\dA-Z]{4}-|[A-Z2-7]{32})/;

export type Mask = (text: string) => string;

/** @param values secrets to mask literally */
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

/** Shorter values are not secrets, and masking them would make the log unreadable. */
const MIN_LENGTH = 8;

/** Items of variables whose name marks them as secrets, and passwords in URLs. */
export function secretsIn(env: Record<string, string | undefined>): string[] {
  const found = Object.entries(env).flatMap(([name, value = '']) => [
    ...(URL.canParse(value) ? [passwordIn(value)] : []),
    ...(/(^|_)(KEYS?|TOKENS?|SECRETS?|PASSWORDS?)$/.test(name) ? listed(value) : []),
  ]);
  return [...new Set(found)].filter((value) => value.length >= MIN_LENGTH);
}

/** Splits a list at commas or spaces. Includes a named token (`billing:token`) with and without its name. */
const listed = (value: string): string[] =>
  [...value.split(','), ...value.split(/[,\s]+/)]
    .map((part) => part.trim())
    .flatMap((part) => [part, part.replace(/^[\da-z-]{1,32}:/, '')]);

/** Variables that do not belong to Gauge may hold anything. */
function passwordIn(url: string): string {
  const { password } = new URL(url);
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

/** Decodes the path only if that reveals a secret, which is then masked. */
export function maskPath(url: string, mask: Mask): string {
  const path = url.split('?', 1)[0]!;
  const decoded = decodePath(path);
  const masked = mask(decoded);
  return masked === decoded ? path : masked;
}

/** If the path is not UTF-8, decodes only ASCII, so that a secret beside broken bytes is recognized. */
function decodePath(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/%[0-7][\dA-F]/gi, decodeURIComponent);
  }
}
