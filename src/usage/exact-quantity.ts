const manyDigits = /(?<!\\)"quantity"\s*:\s*-?[\d.]{16,}/;
const quantityLiteral = /(?<!\\)"quantity"(\s*:\s*)(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const MAX_DIGITS = 100;

/**
 * The exact digits of quantities that `JSON.parse` would round to a double, by event. Almost no body has one, and a
 * body that has none of 16 digits or more is not looked at twice. A closing quote that is not escaped, followed by a
 * colon, ends a field name, so a text that merely contains the word is never taken for one.
 *
 * @param text the body that `events` was parsed from
 * @throws RangeError naming the event whose quantity has more than 100 digits
 */
export function findExactQuantities(text: string): Map<number, string> {
  const exact = new Map<number, string>();
  if (!manyDigits.test(text)) return exact;
  const quoted = JSON.parse(text.replace(quantityLiteral, '"quantity"$1"$2"')) as {
    events: { quantity?: unknown }[];
  };
  for (const [i, { quantity }] of quoted.events.entries()) {
    if (typeof quantity !== 'string') continue;
    const digits = quantity.replace(/[eE].*$/, '').length;
    if (digits > MAX_DIGITS) throw new RangeError(`/events/${i}/quantity has more than ${MAX_DIGITS} digits`);
    // What a double cannot tell from zero is zero, as it is for a literal of few digits.
    if (digits >= 16 && Number(quantity) !== 0) exact.set(i, quantity);
  }
  return exact;
}
