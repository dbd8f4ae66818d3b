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
const titles = (query: string) => find(query, 10).map(({ title }) => title);

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
      expect(search(query, 2).map(({ title }) => title)).toEqual(['Rotating keys', 'Rotate an API key']);
    const [, , { snippet }] = search('rotate', 3) as [unknown, unknown, ReturnType<typeof search>[number]];
    expect(snippet).toContainEqual({ text: 'rotated', isMatch: true });
  });

  it('skips the words of a question, unless nothing else was typed', () => {
    expect(titles('how do i send a batch')).toEqual(['Send usage events', 'When to retry']);
    expect(titles('when to')).toEqual(['When to retry']);
  });

  it('treats no character as a pattern', () => {
    for (const query of ['%', '\\', '.*', '(', '[a-z]', '   ', '']) expect(titles(query)).toEqual([]);
    expect(titles('_')).toEqual(['rate_limited']);
  });

  it('returns no more than asked', () => {
    expect(find('e', 2)).toHaveLength(2);
  });

  it('shows the text around the first match and marks each', () => {
    const long = createSearch([
      entry('Guide', 'Long', `${'before '.repeat(100)}needle${' after'.repeat(100)}`),
    ]);
    const [{ snippet }] = long('needle', 1) as [ReturnType<typeof long>[number]];
    expect(snippet.filter(({ isMatch }) => isMatch)).toEqual([{ text: 'needle', isMatch: true }]);
    const text = snippet.map((piece) => piece.text).join('');
    expect(text).toMatch(/^…before .*needle.*…$/);
    expect(text.length).toBeLessThan(220);
  });

  it('keeps letters that change their length in lower case', () => {
    const turkish = createSearch([entry('Guide', 'City', 'İstanbul has a key')]);
    expect(turkish('key', 1)[0]!.snippet).toEqual([{ text: 'İstanbul has a key', isMatch: false }]);
  });
});
