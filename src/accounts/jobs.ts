import type { Job } from '../core/db/jobs.js';
import type { Context } from '../core/http/context.js';
import { auditExportJobs } from './audit/export-heads.js';
import type { KeyUse } from './api-keys/key-use.js';
import { deleteOldKeyCalls } from './api-keys/key-use-queries.js';
import { isAnyKeyWatched } from './api-keys/queries.js';
import { answerPasswordRequests } from './identity/account/reset.js';
import { deleteOldLinks } from './identity/links/links.js';
import { createSecretBox } from '../core/secret-box.js';
import { resealSecrets } from './identity/second-factor/codes.js';
import { deleteExpiredSessions } from './identity/session/queries.js';
import { deleteExpiredSingleSignOns } from './identity/single-sign-on/queries.js';
import { deleteOldFailedSignIns } from './identity/sign-in/failed-queries.js';
import { deleteExpiredPortalSessions } from './portal/queries.js';
import { createMailSender, deleteOldMails, resealMails } from './mail/sender.js';
import { resealWebhookSecrets } from './webhooks/endpoints.js';
import { webhookJobs } from './webhooks/upkeep.js';

export const accountJobs = (context: Context, keyUse: KeyUse): Job[] => [
  ...keyJobs(context, keyUse),
  ...identityJobs(context),
  ...mailJobs(context),
  ...webhookJobs(context),
  ...auditExportJobs(context),
];

const keyJobs = ({ db, clock }: Context, keyUse: KeyUse): Job[] => [
  { name: 'write-key-use', schedule: '*/30 * * * * *', run: () => keyUse.flush() },
  {
    name: 'write-watched-key-use',
    schedule: '*/2 * * * * *',
    run: async () => {
      if (await isAnyKeyWatched(db.orm, new Date(clock.now()))) await keyUse.flush();
    },
  },
  { name: 'delete-old-key-calls', schedule: '0 23 * * * *', run: () => deleteOldKeyCalls(db, clock) },
];

const identityJobs = ({ config, db, clock }: Context): Job[] => [
  {
    name: 'delete-expired-sessions',
    schedule: '0 17 * * * *',
    run: async () => {
      await deleteExpiredSessions(db, new Date(clock.now()));
      await deleteExpiredPortalSessions(db.orm, new Date(clock.now()));
      await deleteExpiredSingleSignOns(db, new Date(clock.now()));
    },
  },
  {
    name: 'delete-old-links',
    schedule: '0 19 * * * *',
    run: async () => {
      await deleteOldLinks(db, new Date(clock.now()));
      await deleteOldFailedSignIns(db, new Date(clock.now()));
    },
  },
  {
    name: 'reseal-secrets',
    schedule: '0 29 * * * *',
    run: async () => {
      await resealSecrets(db, createSecretBox(config.secretKeys));
      await resealWebhookSecrets({ config, db, clock });
      if (config.mail) await resealMails(db, config.mail);
    },
  },
];

/** If mail is off, deletes messages left over from earlier runs. */
function mailJobs(context: Context): Job[] {
  const { config, db, clock } = context;
  const send = createMailSender(context);
  const answerAndSend = async () => {
    await answerPasswordRequests(context);
    await send();
  };
  return [
    {
      name: 'delete-old-mails',
      schedule: '0 31 * * * *',
      run: () => deleteOldMails(db, new Date(clock.now())),
    },
    ...(config.mail ? [{ name: 'send-mails', schedule: '*/5 * * * * *', run: answerAndSend }] : []),
  ];
}
