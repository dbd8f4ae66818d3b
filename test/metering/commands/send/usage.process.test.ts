import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { createFolder, send, startSend } from './run-send.js';

// Some tests start processes, which is slow on a busy machine.

const folder = createFolder();
afterAll(() => folder.remove());
const env = { GAUGE_URL: 'http://127.0.0.1:1', GAUGE_API_KEY: 'org_live_key' };

describe('the command line', () => {
  it('--help explains the flags, the mapping, the environment and the exit status', async () => {
    const run = await startSend(['--help'], {}).ended;
    expect(run).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['--idempotency-key', 'lower(', 'GAUGE_API_KEY', 'Exit status', '--dry-run'])
      expect(run.stdout).toContain(word);
  });

  it.each([
    ['no file', [], env, /missing required argument/],
    ['an unknown flag', ['a.csv', '--key', 'x'], env, /unknown option '--key'/],
    ['two files', ['a.csv', 'b.csv'], env, /too many arguments/],
    ['a batch beyond the limit', ['a.csv', '--batch', '501'], env, /from 1 to 500/],
    ['no senders', ['a.csv', '--concurrency', '0'], env, /from 1 to 64/],
    ['an unknown format', ['a.csv', '--format', 'xml'], env, /Allowed choices/],
    ['a name without a format', ['events'], env, /--format ndjson, csv or json/],
    ['a long delimiter', ['a.csv', '--delimiter', 'ab'], env, /--delimiter must be one character/],
    ['no such file', ['nope.csv'], env, /nope\.csv cannot be read: ENOENT/],
    ['no key', ['a.csv'], {}, /GAUGE_API_KEY is not set/],
    ['a broken key', ['a.csv'], { GAUGE_API_KEY: 'a\nb' }, /characters that no API key has/],
    ['no address', ['a.csv'], { ...env, GAUGE_URL: 'ftp://x' }, /GAUGE_URL must be an address/],
    ['a constant key', ['a.csv', '--idempotency-key', '=x'], env, /cannot be a constant/],
  ])('%s is a usage error', async (_name, args, env, message) => {
    const run = await send(args, env);
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toMatch(message);
  });

  it('never lets the rejected file overwrite the input, and does not read a directory', async () => {
    const file = folder.path('a.ndjson');
    writeFileSync(file, '{');
    const run = await send([file, '--rejected', `${folder.path('.')}/a.ndjson`], env);
    expect(run).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--rejected must not be the input file/),
    });
    expect(existsSync(file)).toBe(true);
    mkdirSync(folder.path('d.ndjson'));
    expect((await send([folder.path('d.ndjson')], env)).stderr).toMatch(/it is a directory/);
  });

  it('names a column that does not exist, before anything is sent or written', async () => {
    const file = folder.path('columns.csv');
    writeFileSync(file, 'product,units\nsearch,1\n');
    expect(await send([file, '--product-slug', 'product', '--metric', 'calls'], env)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'send: --metric: there is no column "calls". The columns are "product", "units".\n',
    });
  });

  it('completes a run on an empty file', async () => {
    writeFileSync(folder.path('empty.csv'), '');
    const run = await send([folder.path('empty.csv')], env);
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/Sent 0 records/) });
  });

  it('removes the rejected file of an earlier run after a run without rejections', async () => {
    const file = folder.path('b.ndjson');
    writeFileSync(file, '{');
    expect((await send([file], env)).code).toBe(1);
    expect(existsSync(`${file}.rejected.ndjson`)).toBe(true);
    writeFileSync(file, '');
    expect((await send([file], env)).code).toBe(0);
    expect(existsSync(`${file}.rejected.ndjson`)).toBe(false);
  });
});
