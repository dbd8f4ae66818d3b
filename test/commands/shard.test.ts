import { expect, it } from 'vitest';
import { isCitus, isEmbedded } from '../support/database.js';
import { maintenanceCommand } from '../support/maintenance-command.js';

// Each test starts processes, which is slow on a busy machine.

const { run, withDatabase } = maintenanceCommand('src/commands/shard');

it.runIf(isEmbedded)(
  '--help explains the flags and the exit status, and a nonsensical argument is an error',
  async () => {
    const [help, both, alone] = await Promise.all([
      run(['--help']),
      run(['--check', '--move', 'acme']),
      run(['--to', 'worker:5432']),
    ]);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['--shards', '--check', '--move', '--to', 'DATABASE_URL', 'Exit status'])
      expect(help.stdout).toContain(word);
    expect(both).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/cannot be used with/) });
    expect(alone).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/needs --move/) });
  },
);

it
  .skipIf(isCitus)
  .each(isEmbedded ? [[[]]] : [[[]], [['--check']], [['--move', 'acme', '--to', 'worker:5432']]])(
  'changes nothing without Citus and names what is missing, even while the service runs: %j',
  async (args) => {
    const missing = isEmbedded
      ? /cannot be sharded. Set DATABASE_URL/
      : /this Postgres has no Citus. Install/;
    expect(await withDatabase(() => run(args))).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(missing),
    });
  },
);
