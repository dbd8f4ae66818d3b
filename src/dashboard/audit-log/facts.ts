/** A value in words; a time is shown as one. */
export type FactValue = { text: string; isNone: boolean; href?: string } | { at: Date };

/** One line of an entry's details: what a field is, or what it was before and is afterwards. */
export type Fact = { label: string; value: FactValue } | { label: string; from: FactValue; to: FactValue };

/** The details of an entry, readable: changed fields first, then the others. */
export function toFacts({ before, after, ...others }: Record<string, unknown>): Fact[] {
  return [...toChanges(before, after), ...Object.entries(others).map(([name, value]) => fact(name, value))];
}

function toChanges(before: unknown, after: unknown): Fact[] {
  if (isFields(before) && isFields(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].map((name) => ({
      label: toLabel(name),
      from: toValue(before[name]),
      to: toValue(after[name]),
    }));
  }
  const both = { ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
  return Object.entries(both).flatMap(([name, fields]) =>
    isFields(fields)
      ? Object.entries(fields).map(([field, value]) =>
          fact(name === 'before' ? `${field} before` : field, value),
        )
      : [fact(name, fields)],
  );
}

function fact(name: string, value: unknown): Fact {
  if (name === 'livemode' && typeof value === 'boolean')
    return { label: 'Mode', value: { text: value ? 'live' : 'test', isNone: false } };
  if (name === 'previousId' && typeof value === 'string') {
    const href = `/dashboard/api-keys/${encodeURIComponent(value)}`;
    return { label: 'Replaces', value: { text: value, isNone: false, href } };
  }
  return { label: toLabel(name), value: toValue(value) };
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `graceMinutes` as `Grace minutes`. */
function toLabel(name: string): string {
  const words = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function toValue(value: unknown): FactValue {
  if (value === null || value === undefined || value === '') return { text: 'none', isNone: true };
  if (typeof value === 'boolean') return { text: value ? 'yes' : 'no', isNone: false };
  if (typeof value === 'string') {
    const at = time.test(value) ? new Date(value) : undefined;
    return at && !Number.isNaN(at.getTime()) ? { at } : { text: value, isNone: false };
  }
  const isPlainList =
    Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string');
  return { text: isPlainList ? value.join(', ') : JSON.stringify(value), isNone: false };
}
