const MASK = '[redacted]';

/** The shapes of what opens something here, wherever it stands: in an address, a header, the text of an error. */
const shapes: [pattern: RegExp, replacement: string][] = [
  // API keys, as they are or with percent-encoded characters.
  [/(org(?:_|%5F)(?:live|test)(?:_|%5F))(?:[\dA-Za-z]|%[\dA-Fa-f]{2}){8,}/gi, `$1${MASK}`],
  [/(bearer(?:\s|%20|\+)+)[^\s"',;\\]+/gi, `$1${MASK}`],
  [/(gauge_\w{1,64}(?:\.sig)?=)[^;\s"\\]+/g, `$1${MASK}`],
  [/([?&](?:api[-_]?key|key|token|access_token|secret|password|code|invitation)=)[^&\s"#\\]+/gi, `$1${MASK}`],
  // The password of a database or of Redis.
  [/(\w:\/\/[^\s/:@"]*:)[^\s/@"]+(?=@)/g, `$1${MASK}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*/g, MASK],
  // Tokens of sessions and of invitations: 256 bits, and 384, in base64url. Names in code have words, not both cases.
  [/(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?:[\w-]{43}|[\w-]{64})(?![\w-])/g, MASK],
  // Recovery codes.
  [/(?<![\w-])[\dA-HJKMNP-TV-Z]{4}(?:-[\dA-HJKMNP-TV-Z]{4}){3,7}(?![\w-])/g, MASK],
];

/** A line that has none of these has no secret: most lines are told at the cost of two searches, each from the beginnings of words. */
const hint = /org(?:_|%5F)|bearer|gauge_|[?&]\w|:\/\/|PRIVATE KEY|(?<![\w-])[\w-]{43}/i;
/** Of recovery codes, which are in capitals: in any case each UUID would be one. */
const codeHint = /(?<![\w-])[\dA-Z]{4}-[\dA-Z]{4}-/;

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
    if (hint.test(masked) || codeHint.test(masked))
      for (const [pattern, replacement] of shapes) masked = masked.replace(pattern, replacement);
    return masked;
  };
}

/** Too short to be a secret: masking it would make the log unreadable. */
const MIN_LENGTH = 8;

/** The secrets in an environment: the variables that are named as such, each of a list, and passwords in addresses. */
export function secretsIn(env: Record<string, string | undefined>): string[] {
  return Object.entries(env)
    .flatMap(([name, value = '']) => {
      if (name.endsWith('_URL') && URL.canParse(value)) return [passwordIn(value)];
      return /(^|_)(KEYS?|TOKENS?|SECRETS?|PASSWORDS?)$/.test(name) ? value.split(/[,\s]+/) : [];
    })
    .filter((value) => value.length >= MIN_LENGTH);
}

/** Of a variable that is not Gauge's it may be anything. */
function passwordIn(url: string): string {
  const { password } = new URL(url);
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

/** An address as it may be logged: its path alone, and decoded where only that shows what it holds. */
export function maskPath(url: string, mask: Mask): string {
  const path = url.split('?', 1)[0]!;
  if (!path.includes('%')) return path;
  try {
    const decoded = decodeURIComponent(path);
    const masked = mask(decoded);
    return masked === decoded ? path : masked;
  } catch {
    return path;
  }
}
