const manyDigits = /[\d.]{16,}/;
/** Strings in runs, so that there are fewer matches: that takes half the time. */
const stringsOrNumber = /(?:"[^"\\]*(?:\\.[^"\\]*)*"[\s:,{}[\]]*){1,64}|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Parses JSON; numbers of 16 digits or more become strings with all their digits. A double would round them: two long
 * ids could become one idempotency key, and an event would be taken for a repeat.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  // Checked as it stands first: quoting must not turn a broken text into a good one.
  const rounded: unknown = JSON.parse(text);
  return manyDigits.test(text) ? parseNumbersAsText(text, hasManyDigits) : rounded;
}

/**
 * Parses JSON that is known to be valid; numbers become strings with the digits that were sent.
 * @param isKept of which numbers; left out: of all
 */
export const parseNumbersAsText = (text: string, isKept = (_literal: string): boolean => true): unknown =>
  JSON.parse(
    text.replace(stringsOrNumber, (token) => (token[0] !== '"' && isKept(token) ? `"${token}"` : token)),
  );

/** Counted with its sign and point, which is near enough: all that have fewer are exact as doubles. */
const hasManyDigits = (literal: string): boolean => literal.replace(/[eE].*/, '').length >= 16;
