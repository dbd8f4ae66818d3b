import type { Request, Response, Router } from 'express';
import { findSetup } from '../second-factor/queries.js';
import { personOf } from '../session/session.js';
import { sendToken } from '../session/session-cookie.js';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { checkPassword } from './account.js';
import { ACCOUNT, authorOf, limitGuesses, renderAccount, type AccountDeps } from './page.js';
import { toQrCode } from './qr-code.js';
import { confirmBothSchema, confirmSchema, filledIn, setupSchema } from './schema.js';
import {
  beginSetup,
  finishSetup,
  readSecondFactor,
  renewRecoveryCodes,
  toKeyUri,
  turnOff,
} from './second-factor.js';

const BASE = `${ACCOUNT}/second-factor`;
const tab = 'second-factor';

const notices = {
  off: 'The second factor is off. All your other sessions have ended.',
  on: 'The second factor is on already.',
  ended: 'That set-up has ended. Begin it again here.',
  required: 'Your Organization requires a second factor. Set yours up to go on.',
};

export function secondFactorPages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  /** The state of things; while the factor is off, with the form that begins the set-up. */
  const show = async (req: Request, res: Response, form: FormState) => {
    const factor = await readSecondFactor(db.orm, personOf(res).userId);
    const page = { view: 'second-factor', tab, title: 'Second factor', notices } as const;
    await renderAccount(deps, req, res, page, { form, factor });
  };

  router.get('/account/second-factor', (req, res) => show(req, res, newForm()));

  router.post(
    '/account/second-factor',
    formRoute({
      async act(req, res, fields) {
        const { currentPassword } = parseInput(confirmSchema, filledIn(fields));
        const author = authorOf(deps, req, res);
        const person = await limitGuesses(deps, req, res, () =>
          checkPassword(db.orm, author, currentPassword),
        );
        await beginSetup(deps, author, person);
        res.redirect(303, `${BASE}/setup`);
      },
      show,
    }),
  );

  const showSetup = async (req: Request, res: Response, form: FormState) => {
    const { email, ...person } = personOf(res);
    const stored = await findSetup(db.orm, person);
    if (stored === undefined) {
      const { since } = await readSecondFactor(db.orm, person.userId);
      res.redirect(303, toAddress(BASE, { done: since ? 'on' : 'ended' }));
      return;
    }
    const secret = deps.secrets.open(person.userId, stored);
    const uri = toKeyUri(email, secret);
    const page = { view: 'second-factor-setup', tab, title: 'Set up the second factor' } as const;
    await renderAccount(deps, req, res, page, {
      form,
      uri,
      qr: toQrCode(uri),
      groups: secret.match(/.{4}/g),
    });
  };

  router.get('/account/second-factor/setup', (req, res) => showSetup(req, res, newForm()));

  router.post(
    '/account/second-factor/setup',
    formRoute({
      async act(req, res, fields) {
        const { code } = parseInput(setupSchema, filledIn(fields));
        const { recoveryCodes, token } = await finishSetup(deps, authorOf(deps, req, res), code);
        sendToken(req, token);
        await showRecoveryCodes(req, res, recoveryCodes, true);
      },
      show: showSetup,
    }),
  );

  /** They are known now and never again, so this page is no address to come back to. */
  const showRecoveryCodes = (req: Request, res: Response, recoveryCodes: string[], isNew: boolean) => {
    const page = { view: 'recovery-codes', tab, title: 'Your recovery codes' } as const;
    return renderAccount(deps, req, res, page, { recoveryCodes, isNew });
  };

  /** A page that asks for the password and a code, for whoever has the second factor on. */
  const showConfirmation =
    (view: string, title: string) => async (req: Request, res: Response, form: FormState) => {
      const factor = await readSecondFactor(db.orm, personOf(res).userId);
      if (factor.since === undefined) res.redirect(303, BASE);
      else await renderAccount(deps, req, res, { view, tab, title }, { form, factor });
    };

  const showRenewal = showConfirmation('recovery-codes-new', 'New recovery codes');
  router.get('/account/second-factor/recovery-codes', (req, res) => showRenewal(req, res, newForm()));

  router.post(
    '/account/second-factor/recovery-codes',
    formRoute({
      async act(req, res, fields) {
        const { currentPassword, code } = parseInput(confirmBothSchema, filledIn(fields));
        const author = authorOf(deps, req, res);
        const recoveryCodes = await limitGuesses(deps, req, res, async () => {
          const person = await checkPassword(db.orm, author, currentPassword);
          return renewRecoveryCodes(deps, author, person, code);
        });
        await showRecoveryCodes(req, res, recoveryCodes, false);
      },
      show: showRenewal,
    }),
  );

  const showTurnOff = showConfirmation('second-factor-off', 'Turn the second factor off');
  router.get('/account/second-factor/off', (req, res) => showTurnOff(req, res, newForm()));

  router.post(
    '/account/second-factor/off',
    formRoute({
      async act(req, res, fields) {
        const { currentPassword, code } = parseInput(confirmBothSchema, filledIn(fields));
        const author = authorOf(deps, req, res);
        const token = await limitGuesses(deps, req, res, async () => {
          const person = await checkPassword(db.orm, author, currentPassword);
          return turnOff(deps, author, person, code);
        });
        sendToken(req, token);
        res.redirect(303, toAddress(BASE, { done: 'off' }));
      },
      show: showTurnOff,
    }),
  );
  return router;
}
