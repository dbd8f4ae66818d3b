import { statSync } from 'node:fs';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { openDatabaseSocket } from '../../src/core/db/database-socket.js';
import { lockDirectory } from '../../src/core/db/directory-lock.js';
import { openPglite } from '../../src/core/db/embedded.js';
import { servePglite } from '../../src/core/db/pglite-port.js';
import { maintenanceCommand } from '../support/maintenance-command.js';

// Each test starts processes, which is slow on a busy machine.

const { environment, run, withDatabase } = maintenanceCommand('src/commands/setup-link');

it.each(['setup-link', 'reconcile', 'audit-verify', 'migrate'])(
  '%s says in one sentence what to do if Gauge has the embedded database open',
  async (name) => {
    const { DATA_DIR: dataDir } = environment().env as { DATA_DIR?: string };
    await withDatabase(async () => {
      expect(await run([], {}, `src/commands/${name}`)).toEqual({
        code: 2,
        stdout: '',
        stderr: `${name.replace('audit-', 'audit:')}: process ${process.pid} has the embedded database in ${dataDir} open. Stop Gauge, then run this command again.\n`,
      });
    });
  },
);

it.each([
  ['reconcile', /^No drift/],
  ['audit-verify', /^The audit log is empty/],
  ['setup-link', /\/set-up#[\w-]{43}$/m],
])('%s works through a service that offers its embedded database', async (name, message) => {
  const { DATA_DIR: dataDir } = environment().env as { DATA_DIR?: string };
  const unlock = await lockDirectory(dataDir!);
  const pglite = await openPglite(join(dataDir!, 'pglite'));
  const socket = await openDatabaseSocket(dataDir!, () => {
    const { port1, port2 } = new MessageChannel();
    servePglite(pglite, port1, () => undefined);
    return port2;
  });
  try {
    expect(statSync(join(dataDir!, 'gauge.sock')).mode & 0o777).toBe(0o600);
    const ran = await run([], {}, `src/commands/${name}`);
    expect(ran).toMatchObject({ code: 0, stderr: '' });
    expect(ran.stdout).toMatch(message);
    // The command ended only its own connection.
    expect((await pglite.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  } finally {
    socket.close();
    await pglite.close();
    unlock();
  }
});
