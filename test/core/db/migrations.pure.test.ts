import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../../migrations', import.meta.url));
const { entries } = JSON.parse(readFileSync(`${folder}/meta/_journal.json`, 'utf8')) as {
  entries: { idx: number; when: number; tag: string }[];
};

it('the journal names every migration once, in order', () => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  expect(entries.map(({ tag }) => `${tag}.sql`)).toEqual(files.sort());
  // The baseline has the number of the last migration that it replaces.
  expect(entries.map(({ idx }) => idx)).toEqual(entries.map((_, i) => 50 + i));
});

it('the journal’s timestamps only increase, because the migrator skips anything older than the last applied migration', () => {
  const times = entries.map(({ when }) => when);
  expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
  expect(times.at(-1)).toBeLessThan(Date.now() + 86_400_000);
});

it('the last migration has a snapshot, from which the next one is generated', () => {
  expect(existsSync(`${folder}/meta/${entries.at(-1)!.tag.slice(0, 4)}_snapshot.json`)).toBe(true);
});
