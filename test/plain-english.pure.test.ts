import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** Word order that no native speaker uses; CONTRIBUTING.md has the rule. A heading or a question may begin with What. */
const foreign =
  /(?:^|[.:;] )(?:(?:Of|Who|Whose|Whom|With which|By which) |What (?=[^.?]*\.))|\b(?:is|are) told\b|\bis none (?:of|that)\b|\bgoes on by\b|\bat the most\b/;

/** Participles that are no names, and a verb that a native speaker would not use in one. */
const poorName = /^(?:asked|changed|found|given|held|known|own|sent|shown|told|typed|written)$|^tell[A-Z]/;

const list = (folder: string, name: RegExp): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => name.test(path))
    .map((path) => `${folder}/${path}`);

const sources = ['src', 'test', 'bench', 'lab', 'tools/clients'].flatMap((folder) =>
  list(folder, /(?<!\.d)\.ts$/),
);

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

const readComments = (source: string): string[] =>
  [...source.matchAll(/\/\*\*?([\s\S]*?)\*\/|(?<=^|\s)\/\/ (.*)/g)].map(([, block, line]) =>
    oneLine((block ?? line!).replaceAll(/\n\s*\*/g, '\n')),
  );

/** Comments of SQL in its own file or in a template literal. Consecutive lines are one comment. */
const readSqlComments = (source: string): string[] =>
  [...source.matchAll(/(?:^[ \t]*-- .*\n?)+/gm)].map(([lines]) =>
    oneLine(lines.replaceAll(/^[ \t]*--/gm, '')),
  );

/** Returns a template's comments and visible texts. A code tag separates two texts. */
const readTexts = (template: string): string[] =>
  [
    ...[...template.matchAll(/<%#([\s\S]*?)%>/g)].map(([, comment]) => comment!),
    ...template.replaceAll(/<%[\s\S]*?%>/g, '<>').split(/<[^<>]*>/),
  ].map(oneLine);

const readParagraphs = (markdown: string): string[] =>
  markdown
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .split(/\n\n|\s*\|\s*/)
    .map(oneLine);

const readNames = (script: string): string[] =>
  [...script.matchAll(/\b(?:const|let|function) [[{]?\s*(\w+)|[(,] ?(\w+)(?=[,)][^()]*=>)/g)].map(
    ([, declared, parameter]) => (declared ?? parameter)!,
  );

const find = (files: readonly string[], read: (source: string) => string[], poor = foreign): string[] =>
  files.flatMap((file) =>
    read(readFileSync(file, 'utf8'))
      .filter((text) => poor.test(text))
      .map((text) => `${file}: ${text}`),
  );

it('comments are in plain English: no sentence begins with Of, Who or What, and nobody is told', () => {
  expect(find(sources, readComments)).toEqual([]);
});

it('comments of SQL are in plain English, too', () => {
  const sql = [...list('migrations', /\.sql$/), ...list('src', /\.sql$/), ...sources];
  expect(find(sql, readSqlComments)).toEqual([]);
});

it('templates, browser scripts and the results of benchmarks are in plain English, too', () => {
  expect(find(list('views', /\.ejs$/), readTexts)).toEqual([]);
  expect(find(list('views', /\.js$/), readComments)).toEqual([]);
  expect(find(['bench/README.md', ...list('views/docs/guides', /\.md$/)], readParagraphs)).toEqual([]);
});

it('names in browser scripts are nouns, or verb and noun', () => {
  expect(find(list('views/assets', /\.js$/), readNames, poorName)).toEqual([]);
});
