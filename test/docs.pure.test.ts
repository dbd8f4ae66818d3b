import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { products } from '../src/products.js';
import { describeService } from '../src/reference.js';

const list = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`);
const documents = [
  ...readdirSync('.').filter((name) => name.endsWith('.md')),
  ...['docs', 'src', 'bench'].flatMap(list).filter((path) => path.endsWith('.md')),
];
const files = ['src', 'test', 'bench', 'lab', 'tools/clients', 'views', 'migrations', 'deploy'].flatMap(list);

/**
 * Returns the source files that a document names in backticks with their folder, such as
 * `metering/ingestion/routes.ts`.
 */
const modules = (text: string) => text.match(/(?<=`)(?:[\w.-]+\/)+[\w.-]+\.(?:ts|ejs|css|sql)(?=`)/g) ?? [];

it.each(documents)('%s names only existing files', (document) => {
  const named = modules(readFileSync(document, 'utf8'));
  expect(named.filter((name) => !files.some((file) => `/${file}`.endsWith(`/${name}`)))).toEqual([]);
});

/** Names of Gauge's metrics, roles and cookies. Suffixes that Prometheus adds to histogram names are removed. */
const ownNames = (text: string) =>
  (text.match(/\bgauge_[a-z_]+[a-z]/g) ?? []).map((name) => name.replace(/_(?:bucket|count|sum)$/, ''));
const named = new Set(
  files
    .filter((path) => /^(?:src|deploy)\/.*\.(?:ts|sql|sh)$/.test(path))
    .flatMap((path) => ownNames(readFileSync(path, 'utf8'))),
);

it.each(documents)('%s names only existing metrics', (document) => {
  expect(ownNames(readFileSync(document, 'utf8')).filter((name) => !named.has(name))).toEqual([]);
});

it('the ASVS table names only existing tests', () => {
  const rows = readFileSync('docs/asvs.md', 'utf8')
    .split('\n')
    .filter((line) => /^\| V\d/.test(line));
  const shownBy = rows.flatMap(
    (row) =>
      row
        .split('|')
        .at(-2)!
        .match(/(?<=`)[\w-]+(?:\/[\w.-]+)+(?=`)/g) ?? [],
  );
  expect(shownBy.length).toBeGreaterThan(50);
  expect(shownBy.filter((name) => !files.some((file) => file.startsWith(`test/${name}`)))).toEqual([]);
});

it.each([
  ['README.md', /^## The first event.*?(?=^###? )/ms],
  ['views/docs/topics/start.ejs', /.*/s],
])('%s names every scope that the first calls need', async (document, section) => {
  const [text] = section.exec(readFileSync(document, 'utf8'))!;
  const needed = (await describeService(products)).routes
    .filter(
      ({ path, operationId }) => text.includes(`localhost:3000${path} `) || text.includes(`'${operationId}'`),
    )
    .map(({ scope }) => scope!);
  expect(needed).toEqual(expect.arrayContaining(['usage:write', 'entitlements:read']));
  expect(needed.filter((scope) => !text.includes(scope))).toEqual([]);
});
