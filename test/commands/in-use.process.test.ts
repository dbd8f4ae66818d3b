import { expect, it, vi } from 'vitest';
import { maintenanceCommand } from '../support/maintenance-command.js';

// Each test starts processes, which is slow on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

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
