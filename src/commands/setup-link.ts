import { Command, Option } from 'commander';
import type { Config } from '../config.js';
import { systemClock } from '../core/time.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { AppError } from '../core/errors.js';
import { createResetLink } from '../accounts/identity/account/reset.js';
import { createSetUpLink, describeSetUpLink } from '../accounts/identity/operators/operators.js';
import { normalizeEmail } from '../accounts/identity/sign-in/sign-in.js';
import { runMaintenance } from './kit/maintenance.js';

const help = `
As long as there is no operator, the service prints a link at each start with which the first one signs in; this makes
another at any time, and the one before stops working. It is good for an hour, and once. It may run while the service does,
but for the embedded database, which has room for one process.

With --force it makes one although there are operators: for operators who are locked out. The two resets let one person in
again, for a day: who lost the password has to know their second factor, and who lost that, the password. All of it is in
the operator's audit log.

In the container: docker compose exec app node dist/commands/setup-link.js

Environment: DATABASE_URL, or DATA_DIR for the embedded database, and PUBLIC_URL, as for the service.

Exit status: 0 a link was printed, 1 there is an operator, 2 it could not be made.`;

interface Flags {
  force?: boolean;
  resetPassword?: string;
  resetSecondFactor?: string;
}

async function printLink(
  { orm }: MaintenanceDatabase,
  { force, resetPassword, resetSecondFactor }: Flags,
  { publicUrl, port }: Config,
): Promise<number> {
  const deps = { db: { orm }, clock: systemClock };
  const origin = publicUrl ?? `http://localhost:${port}`;
  const email = resetPassword ?? resetSecondFactor;
  if (email !== undefined) {
    const kind = resetPassword === undefined ? 'second_factor_reset' : 'password_reset';
    const { path } = await createResetLink(deps, kind, normalizeEmail(email));
    console.log(`For ${email}, within a day:\n\n  ${origin}${path}\n`);
    return 0;
  }
  const link = await createSetUpLink(deps, force);
  if (!link) {
    console.error('There is already an operator; --force makes a link nevertheless.');
    return 1;
  }
  console.log(describeSetUpLink(origin + link.path));
  return 0;
}

await runMaintenance<Flags>({
  command: new Command('setup-link')
    .description('Prints a link with which the first operator signs in.')
    .option('--force', 'although there are operators')
    .addOption(
      new Option('--reset-password <email>', 'a link to choose another password').conflicts([
        'force',
        'resetSecondFactor',
      ]),
    )
    .addOption(
      new Option('--reset-second-factor <email>', 'a link to remove the second factor').conflicts('force'),
    )
    .addHelpText('after', help),
  work: printLink,
  explain: (error) => (error instanceof AppError ? error.message : undefined),
});
