import type { ZxcvbnFactory } from '@zxcvbn-ts/core';

export const MIN_PASSWORD = 12;
export const MAX_PASSWORD = 1024;

/** A password that is found within so many guesses is refused: zxcvbn's score 3 and better (Wheeler 2016). */
const MIN_GUESSES = 1e8;
/** The time of an estimate grows with the square of the length. What goes beyond it only makes a password better. */
const MAX_JUDGED = 32;

/** Beside the 49,000 common passwords and 7,800 words of the library: what everybody has read about. */
const wellKnown = [
  'correcthorsebatterystaple',
  'thisismypassword',
  'letmeinletmein',
  'loveyouforever',
  'gauge',
];

let estimator: Promise<ZxcvbnFactory> | undefined;

/** Reads the lists of common passwords: a sixth of a second and 13 MB, once. */
export const preparePasswordRules = (): Promise<ZxcvbnFactory> => (estimator ??= loadEstimator());

async function loadEstimator(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory: Estimator }, { adjacencyGraphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  return new Estimator({
    graphs: adjacencyGraphs,
    dictionary: { ...dictionary, wellKnown },
    maxLength: MAX_JUDGED,
    l33tMaxSubstitutions: 10,
  });
}

/**
 * What is wrong with a password that somebody chooses, to go on where the field's name ends, or undefined if it is good.
 * What the sign-in form would refuse is refused here as well: control characters and halves of surrogate pairs.
 */
export async function passwordProblem(password: string, email: string): Promise<string | undefined> {
  const { length } = Array.from(password);
  if (length < MIN_PASSWORD) return `must have at least ${MIN_PASSWORD} characters`;
  if (length > MAX_PASSWORD) return `must have at most ${MAX_PASSWORD.toLocaleString('en')} characters`;
  if (/[\p{Cc}\p{Cs}]/u.test(password)) return 'must not contain control characters';
  const lower = password.toLowerCase();
  const [localPart = '', domain = ''] = email.split('@');
  if (lower === email || lower.replace(/[\d\W_]+$/, '') === localPart)
    return 'must not be made of your e-mail address';
  const { guesses } = (await preparePasswordRules()).check(password, [email, localPart, domain]);
  if (guesses < MIN_GUESSES)
    return 'is too easy to guess: it is a common password, or made of common words, names, dates or patterns';
  return undefined;
}
