import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const rows = readFileSync('docs/promises.md', 'utf8')
  .split('\n')
  .filter((line) => /^\| (?!promise |-)/.test(line));

/** The tests that the table names, each with its file, parsed from `file.test.ts`: “name”, “name”. */
const namedTests = rows.flatMap((row) =>
  [...row.matchAll(/`([\w./-]+\.test\.ts)`:((?:,? “[^”]+”)+)/g)].flatMap(([, file, names]) =>
    [...names!.matchAll(/“([^”]+)”/g)].map(([, name]) => ({ file: file!, name: name! })),
  ),
);

const pathOf = (file: string) => (file.startsWith('lab/') ? file : `test/${file}`);

it('each promise names an existing test or a command', () => {
  expect(rows.length).toBeGreaterThan(25);
  expect(rows.filter((row) => !/`: “|`npm run /.test(row))).toEqual([]);
  const files = rows.flatMap((row) => row.match(/[\w./-]+\.test\.ts/g) ?? []);
  expect(new Set(namedTests.map(({ file }) => file))).toEqual(new Set(files));
  const missing = namedTests.filter(
    ({ file, name }) => !existsSync(pathOf(file)) || !hasTest(readFileSync(pathOf(file), 'utf8'), name),
  );
  expect(missing).toEqual([]);
});

/** @returns true if a test or `describe` has this name or a name that starts with it */
const hasTest = (source: string, name: string) =>
  ["'", '"', '`'].some(
    (quote) => source.includes(`(${quote}${name}`) || source.includes(`  ${quote}${name}`),
  );
