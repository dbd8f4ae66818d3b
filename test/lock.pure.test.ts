import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface Entry {
  link?: boolean;
  integrity?: string;
}

it('every package in the lock file has its checksum', () => {
  const { packages } = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as {
    packages: Record<string, Entry>;
  };
  const without = Object.entries(packages).filter(
    ([path, { link, integrity }]) => path.startsWith('node_modules/') && !link && !integrity,
  );
  expect(without.map(([path]) => path)).toEqual([]);
});
