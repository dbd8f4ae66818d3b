import type { Tx } from '../../../core/db/client.js';
import { formatTime } from '../../../core/pages/format.js';
import { queueMail, type MailDeps } from '../../mail/outbox.js';
import { describeAddress, type Whereabouts } from '../source.js';

const changes = {
  password: 'Your password was changed',
  secondFactor: 'Your second factor was turned off',
  recoveryCodes: 'New recovery codes were created for your account',
  appAdded: 'An authenticator app was added to your account',
  appRemoved: 'The authenticator app was removed from your account',
  passkeyAdded: 'A passkey was added to your account',
  identityAdded: 'Single sign-on was added to your account',
  passkeyRemoved: 'A passkey was removed from your account',
};

/** Somebody else may have made the change. */
export async function mailAccountNotice(
  tx: Tx,
  { config }: MailDeps,
  email: string,
  change: keyof typeof changes,
  { at, ip }: Whereabouts,
  isByOperator = false,
): Promise<void> {
  const origin = isByOperator ? 'by the operator of this service' : `from ${describeAddress(ip ?? '')}`;
  await queueMail(tx, config.mail, {
    kind: 'account_notice',
    to: email,
    subject: changes[change],
    text: (service) => [
      `${changes[change]} on ${formatTime(at)}, ${origin}.`,
      'If this was you, or you asked for it, you don’t need to do anything.',
      `If not, choose a new password at ${service}/forgot and contact the operator of this service.`,
    ],
    at,
  });
}
