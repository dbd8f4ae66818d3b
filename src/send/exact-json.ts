const manyDigits = /[\d.]{16,}/;
const stringOrNumber = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Parses JSON; numbers of 16 digits or more become strings with all their digits. A double would round them: two long
 * ids could become one idempotency key, and an event would be taken for a repeat.
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  if (!manyDigits.test(text)) return JSON.parse(text);
  // Checked as it stands first: quoting must not turn a broken text into a good one.
  const rounded: unknown = JSON.parse(text);
  let isRounded = false;
  const quoted = text.replace(stringOrNumber, (token) => {
    if (token.startsWith('"') || token.replace(/[eE].*/, '').length < 16) return token;
    isRounded = true;
    return `"${token}"`;
  });
  return isRounded ? JSON.parse(quoted) : rounded;
}
