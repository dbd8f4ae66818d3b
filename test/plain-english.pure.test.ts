import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const files = ['src', 'test', 'bench', 'lab'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts'))
    .map((path) => `${folder}/${path}`),
);

/** Word order that no native speaker uses; CONTRIBUTING.md has the rule. */
const foreign =
  /(?:^|[.:;] )(?:Of|Who|Whose|Whom|With which|By which) |\b(?:is|are) told\b|\bis none (?:of|that)\b|\bgoes on by\b|\bat the most\b/;

const blocks = (source: string): string[] =>
  [...source.matchAll(/\/\*\*?([\s\S]*?)\*\/|(?<=^|\s)\/\/ (.*)/g)].map(([, block, line]) =>
    (block ?? line!).replace(/\s*\n\s*\*\s?/g, ' ').trim(),
  );

/** Returns a template's comments and visible texts. A code tag separates two texts. */
const texts = (template: string): string[] =>
  [
    ...[...template.matchAll(/<%#([\s\S]*?)%>/g)].map(([, comment]) => comment!),
    ...template.replaceAll(/<%[\s\S]*?%>/g, '<>').split(/<[^<>]*>/),
  ].map((text) => text.replaceAll(/\s+/g, ' ').trim());

it('comments are in plain English: no sentence begins with Of, Who or Whose, and nobody is told', () => {
  const found = files.flatMap((file) =>
    blocks(readFileSync(file, 'utf8'))
      .filter((comment) => foreign.test(comment))
      .map((comment) => `${file}: ${comment}`),
  );
  expect(found).toEqual([]);
});

it('templates and browser scripts are in plain English, too', () => {
  const found = readdirSync('views', { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(?:ejs|js)$/.test(path))
    .flatMap((path) => {
      const source = readFileSync(`views/${path}`, 'utf8');
      const all = path.endsWith('.js') ? blocks(source) : texts(source);
      return all.filter((text) => foreign.test(text)).map((text) => `views/${path}: ${text}`);
    });
  expect(found).toEqual([]);
});
