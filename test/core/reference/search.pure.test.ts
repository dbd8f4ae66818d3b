import { describe, expect, it } from 'vitest';
import { createSearch, type SearchEntry } from '../../../src/core/reference/search.js';

const entry = (kind: SearchEntry['kind'], title: string, text = '', context = ''): SearchEntry => ({
  kind,
  title,
  text,
  context,
  href: `/docs/${title}`,
});

const find = createSearch([
  entry('Field', 'quantity', 'How many units were used.'),
  entry('Guide', 'Rotating keys', 'Replace a key while your runtimes keep running.'),
  entry('Error', 'rate_limited', 'Too many calls. Wait for the number of seconds in Retry-After.', '429'),
  entry('Guide', 'When to retry', 'Wait, then send the same batch again.', 'Retries and idempotency'),
  entry('Request', 'Send usage events', 'Records a batch of up to 500 events.', '/api/usage/events'),
]);
const titles = (query: string) => find(query).map(({ title }) => title);

describe('a search in the documentation', () => {
  it('puts a title before a text, and an exact title first', () => {
    expect(titles('retry')).toEqual(['When to retry', 'rate_limited']);
    expect(titles('rate_limited')).toEqual(['rate_limited']);
  });

  it('needs every word, anywhere, in any case and number', () => {
    expect(titles('WAIT batch')).toEqual(['When to retry']);
    expect(titles('retry units')).toEqual([]);
    expect(titles('retries batches')).toEqual(['When to retry']);
    expect(titles('key')).toEqual(['Rotating keys']);
    expect(titles('keys')).toEqual(['Rotating keys']);
    expect(titles('usage/ev')).toEqual(['Send usage events']);
  });

  it('finds other forms of a word, and puts a guide about it before a request', () => {
    const search = createSearch([
      entry('Request', 'Rotate an API key', 'rotateApiKey'),
      entry('Message', 'api_key.rotated', 'An API key was rotated.'),
      entry('Guide', 'Rotating keys', 'Replace a key.'),
    ]);
    for (const query of ['rotate', 'rotating', 'rotated', 'rotates'])
      expect(
        search(query)
          .slice(0, 2)
          .map(({ title }) => title),
      ).toEqual(['Rotating keys', 'Rotate an API key']);
    const [, , { snippet }] = search('rotate') as [unknown, unknown, ReturnType<typeof search>[number]];
    expect(snippet).toContainEqual({ text: 'rotated', isMatch: true });
  });

  it('skips the words of a question, unless nothing else was typed', () => {
    expect(titles('how do i send a batch')).toEqual(['Send usage events', 'When to retry']);
    expect(titles('when to')).toEqual(['When to retry']);
  });

  it('treats no character as a pattern', () => {
    for (const query of ['%', '\\', '.*', '(', '_', '   ', '']) expect(titles(query)).toEqual([]);
  });

  it('finds synonyms, parts of a name, and a word with a typing error if nothing else matches', () => {
    const search = createSearch([
      entry('Guide', 'Credits', 'An overdraft is what an account owes.'),
      entry('Guide', 'Caps', 'A cap warns.'),
      entry('Field', 'idempotencyKey', 'Identifies the event.'),
    ]);
    const first = (query: string) => search(query).map(({ title }) => title);
    expect(first('overage')).toEqual(['Credits']);
    expect(search('overage')[0]!.snippet).toContainEqual({ text: 'overdraft', isMatch: true });
    expect(first('quotas')).toEqual(['Caps']);
    expect(first('key')).toEqual(['idempotencyKey']);
    expect(first('idempotncy')).toEqual(['idempotencyKey']);
    expect(first('credts')).toEqual(['Credits']);
  });

  it('shows the text around the first match and marks each', () => {
    const long = createSearch([
      entry('Guide', 'Long', `${'before '.repeat(100)}needle${' after'.repeat(100)}`),
    ]);
    const [{ snippet }] = long('needle') as [ReturnType<typeof long>[number]];
    expect(snippet.filter(({ isMatch }) => isMatch)).toEqual([{ text: 'needle', isMatch: true }]);
    const text = snippet.map((piece) => piece.text).join('');
    expect(text).toMatch(/^…before .*needle.*…$/);
    expect(text.length).toBeLessThan(220);
  });

  it('keeps letters that change their length in lower case', () => {
    const turkish = createSearch([entry('Guide', 'City', 'İstanbul has a key')]);
    const { snippet } = turkish('key')[0]!;
    expect(snippet.map(({ text }) => text).join('')).toBe('İstanbul has a key');
    expect(snippet).toContainEqual({ text: 'key', isMatch: true });
  });
});

it('marks a match in the heading and in the page’s name', () => {
  const entry = { kind: 'Guide', href: '/docs/a', text: 'Nothing else.' } as const;
  const [{ marked } = { marked: undefined }] = createSearch([
    { ...entry, title: 'Your keys', context: 'A key’s life' },
  ])('key');
  expect(marked?.title.filter(({ isMatch }) => isMatch)).toEqual([{ text: 'keys', isMatch: true }]);
  expect(marked?.context.filter(({ isMatch }) => isMatch)).toEqual([{ text: 'key', isMatch: true }]);
});
