export const MIN_PASSWORD = 12;
export const MAX_PASSWORD = 1024;

/** The first guesses of everybody who guesses: common passwords that are long enough for our rule, in lower case. */
const common = new Set([
  '1q2w3e4r5t6y',
  '1qaz2wsx3edc',
  'administrator',
  'adminadminadmin',
  'changeme1234',
  'changemechangeme',
  'correcthorsebatterystaple',
  'football1234',
  'iloveyou1234',
  'iloveyouiloveyou',
  'letmein12345',
  'letmeinletmein',
  'loveyouforever',
  'mypassword123',
  'p@ssw0rd1234',
  'passw0rd1234',
  'password1234',
  'password12345',
  'password123456',
  'passwordpassword',
  'q1w2e3r4t5y6',
  'qazwsxedcrfv',
  'qwerty123456',
  'qwertyqwerty',
  'qwertyuiop12',
  'qwertyuiop123',
  'qwertyuiopas',
  'qwertyuiopasdf',
  'superman1234',
  'thisismypassword',
  'trustno1trustno1',
  'unbelievable',
  'welcome12345',
  'welcome123456',
]);

/**
 * What is wrong with a password that a person chooses, to go on where the field's name ends, or undefined if it is good.
 * What the sign-in form would refuse is refused here as well: control characters and halves of surrogate pairs.
 */
export function passwordProblem(password: string, email: string): string | undefined {
  const { length } = Array.from(password);
  if (length < MIN_PASSWORD) return `must have at least ${MIN_PASSWORD} characters`;
  if (length > MAX_PASSWORD) return `must have at most ${MAX_PASSWORD.toLocaleString('en')} characters`;
  if (/[\p{Cc}\p{Cs}]/u.test(password)) return 'must not contain control characters';
  return findWeakness(password, email);
}

function findWeakness(password: string, email: string): string | undefined {
  const lower = password.toLowerCase();
  const [localPart = ''] = email.split('@');
  if (lower === email || lower.replace(/[\d\W_]+$/, '') === localPart)
    return 'must not be made of your e-mail address';
  if (common.has(lower)) return 'is too common: it is among the first that anybody would guess';
  if (isRepeated(lower) || isRun(lower)) return 'follows a pattern that is easy to guess';
  return undefined;
}

/** The same few characters over and over: `aaaaaaaaaaaa`, `abcabcabcabc`. */
function isRepeated(text: string): boolean {
  const letters = Array.from(text);
  if (new Set(letters).size < 4) return true;
  return [1, 2, 3, 4].some((period) =>
    letters.every((letter, i) => i < period || letter === letters[i - period]),
  );
}

/** Each character follows the one before it, up or down, 9 being followed by 0: `123456789012`, `lkjihgfedcba`. */
function isRun(text: string): boolean {
  const codes = Array.from(text, (letter) => letter.codePointAt(0)!);
  const steps = codes.slice(1).map((code, i) => code - codes[i]!);
  return [1, -1].some((way) => steps.every((step) => step === way || step === -9 * way));
}
