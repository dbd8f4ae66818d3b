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
Until there is an operator, the service prints a set-up link at each start. This command creates a new link at any time;
earlier links stop working. A link works once, for an hour. The command can run beside the service.

--force creates a link even if operators exist, for operators who are locked out. The reset links work for a day: resetting
the password requires the second factor, and resetting the second factor requires the password. All of this is written to
the operator's audit log.

In the container: docker compose exec app node dist/commands/setup-link.js

Environment: DATABASE_URL, or DATA_DIR for the embedded database, and PUBLIC_URL, as for the service.

Exit status: 0 a link was printed, 1 there is an operator, 2 no link could be created.`;

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
    console.log(`Reset link for ${email}, valid for a day:\n\n  ${origin}${path}\n`);
    return 0;
  }
  const link = await createSetUpLink(deps, force);
  if (!link) {
    console.error('There is already an operator. Use --force to create a link anyway.');
    return 1;
  }
  console.log(describeSetUpLink(origin + link.path));
  return 0;
}

await runMaintenance<Flags>({
  command: new Command('setup-link')
    .description('Prints a link that sets up the first operator.')
    .option('--force', 'create a link even if operators exist')
    .addOption(
      new Option('--reset-password <email>', 'print a link to reset a password').conflicts([
        'force',
        'resetSecondFactor',
      ]),
    )
    .addOption(
      new Option('--reset-second-factor <email>', 'print a link to remove a second factor').conflicts(
        'force',
      ),
    )
    .addHelpText('after', help),
  throughService: true,
  work: printLink,
  explain: (error) => (error instanceof AppError ? error.message : undefined),
});
