const MIN_LENGTH = 12;
const MAX_LENGTH = 1024;

/**
 * What is wrong with a password that a person chooses, to go on where the field's name ends, or undefined if it is good.
 * What the sign-in form would refuse is refused here as well: control characters and halves of surrogate pairs.
 */
export function passwordProblem(password: string, { email }: { email: string }): string | undefined {
  const { length } = Array.from(password);
  if (length < MIN_LENGTH) return `must have at least ${MIN_LENGTH} characters`;
  if (length > MAX_LENGTH) return `must have at most ${MAX_LENGTH.toLocaleString('en')} characters`;
  if (/[\p{Cc}\p{Cs}]/u.test(password)) return 'must not contain control characters';
  if (password.trim().toLowerCase() === email.toLowerCase()) return 'must not be the e-mail address';
  return undefined;
}
