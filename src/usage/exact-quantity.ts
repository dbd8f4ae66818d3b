import { parseNumbersAsText } from '../core/exact-json.js';

const manyDigits = /(?<!\\)"quantity"\s*:\s*-?[\d.]{16,}/;
const MAX_DIGITS = 100;

/**
 * The exact digits of quantities that `JSON.parse` would round to a double, by event. Almost no body has one, and a
 * body that has none of 16 digits or more is not read twice. A closing quote that is not escaped, followed by a
 * colon, ends a field name, so a text that merely contains the word is never taken for one.
 *
 * @param text the body that the events were parsed from
 * @throws RangeError naming the event whose quantity has more than 100 digits
 */
export function findExactQuantities(text: string): Map<number, string> {
  const exact = new Map<number, string>();
  if (!manyDigits.test(text)) return exact;
  const { events } = parseNumbersAsText(text) as { events: { quantity?: unknown }[] };
  for (const [i, { quantity }] of events.entries()) {
    if (typeof quantity !== 'string') continue;
    const digits = quantity.replace(/[eE].*$/, '').length;
    if (digits > MAX_DIGITS) throw new RangeError(`/events/${i}/quantity has more than ${MAX_DIGITS} digits`);
    // What a double cannot tell from zero is zero, as it is for a literal of few digits.
    if (digits >= 16 && Number(quantity) !== 0) exact.set(i, quantity);
  }
  return exact;
}
