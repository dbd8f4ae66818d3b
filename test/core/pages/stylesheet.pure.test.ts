import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { expect, it } from 'vitest';
import { styleSheets } from '../../../src/core/pages/stylesheet.js';

it('every sheet has its place in the order', () => {
  const inFolder = readdirSync(dirname(styleSheets[0]!)).toSorted();
  expect(styleSheets.map((file) => basename(file)).toSorted()).toEqual(inFolder);
});

it('every sheet closes each brace that it opens, because a stray one hides the rules of later sheets', () => {
  const count = (text: string, brace: string) => text.split(brace).length - 1;
  const unbalanced = styleSheets.filter((file) => {
    const text = readFileSync(file, 'utf8');
    return count(text, '{') !== count(text, '}');
  });
  expect(unbalanced).toEqual([]);
});

it('figures side by side begin at the top, also if the note of one is empty', () => {
  const cards = readFileSync(
    styleSheets.find((file) => basename(file) === 'cards.css')!,
    'utf8',
  );
  expect(/^  \.figure \{([^{]*)/m.exec(cards)![1]).toContain('align-content: start;');
});

it('the lines between tiles are drawn once, by the tiles alone', () => {
  const sheets = styleSheets.map((file) => readFileSync(file, 'utf8')).join('\n');
  const variants = readdirSync('views', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ejs'))
    .flatMap((file) => [...readFileSync(`views/${file}`, 'utf8').matchAll(/class="tiles ([\w-]+)"/g)])
    .map(([, variant]) => variant!);
  expect(variants).toContain('calls');
  expect(variants.filter((variant) => new RegExp(`^\\s*\\.${variant} \\{`, 'm').test(sheets))).toEqual([]);
});

it('a field for code has the ground of other fields', () => {
  const sheets = styleSheets.map((file) => readFileSync(file, 'utf8')).join('\n');
  expect(sheets).not.toMatch(/^\s*\.code \{/m);
});
