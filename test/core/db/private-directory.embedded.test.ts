import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { openEmbedded } from '../../../src/core/db/embedded.js';
import { openRejectedFile } from '../../../src/metering/commands/send/files.js';

const folder = mkdtempSync(join(tmpdir(), 'gauge-modes-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const modeOf = (path: string) => statSync(path).mode & 0o777;

it('only its owner can access the embedded database, whatever the mode of its folder', async () => {
  chmodSync(folder, 0o755);
  const directory = join(folder, 'pglite');
  const said: string[] = [];
  mkdirSync(directory);
  chmodSync(directory, 0o755);
  await (await openEmbedded(folder, false, (text) => said.push(text))).close();
  expect(modeOf(directory)).toBe(0o700);
  expect(said).toEqual([`${directory} had mode 0755. Now only its owner can access it.`]);
});

it('only its owner can read rejected events, also in place of a file that others could read', () => {
  const path = join(folder, 'rejected.ndjson');
  writeFileSync(path, '{}\n');
  chmodSync(path, 0o644);
  const record = { number: 1, keys: [], value: {}, position: 0 };
  const file = openRejectedFile(path, join(folder, 'input.csv'));
  file.append([{ record, code: 'invalid_record', detail: 'x' }]);
  file.close();
  expect(modeOf(path)).toBe(0o600);
});
