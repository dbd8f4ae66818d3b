import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { byProof, change } from '../../audit/change.js';
import { AppError } from '../../core/errors.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { fieldError, formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { listPasskeys, MAX_PASSKEYS } from '../second-factor/passkey-queries.js';
import {
  createNewOptions,
  credentialIdSchema,
  newPasskeySchema,
  readNewPasskey,
  sendUseOptions,
  siteOf,
} from '../second-factor/passkeys.js';
import { byPerson, ConfirmationDue, isConfirmedAt } from '../session/authority.js';
import { sendToken } from '../session/session-cookie.js';
import { personOf } from '../session/session.js';
import { markGuess } from '../sign-in/sign-in-limits.js';
import { audit, type Author } from './account.js';
import { ACCOUNT, authorOf, limitGuesses, renderAccount, type AccountDeps } from './page.js';
import { filledIn } from './schema.js';
import { addPasskey, removePasskey } from './second-factor.js';
import { refusals, showRecoveryCodes } from './second-factor-pages.js';

const BASE = `${ACCOUNT}/passkeys`;

const notices = {
  added: 'The passkey is added.',
  removed: 'The passkey is removed.',
  'last-removed': 'The passkey is removed, and the second factor is off. All your other sessions have ended.',
};

const addSchema = z.strictObject({ name: text(100), passkey: newPasskeySchema });
const removeSchema = z.strictObject({ id: credentialIdSchema });

/** `/dashboard/account/passkeys`. What changes them takes a proof of the last minutes that it is their person. */
export function passkeyPages(deps: AccountDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();
  const nowOf = () => new Date(clock.now());
  const isConfirmed = (res: Response) => isConfirmedAt(personOf(res), nowOf());
  const dangerousAuthor = (req: Request, res: Response): Author => {
    if (!isConfirmed(res)) throw new ConfirmationDue();
    return { ...authorOf(deps, req, res), ...byPerson(res, true) };
  };
  const waiting = (res: Response) => ({ hashedToken: personOf(res).sessionId, now: nowOf() });

  const show = async (req: Request, res: Response, form: FormState) => {
    const passkeys = await listPasskeys(db.orm, personOf(res).userId);
    const page = { view: 'passkeys', tab: 'passkeys', title: 'Passkeys', notices } as const;
    await renderAccount(deps, req, res, page, {
      form,
      passkeys,
      max: MAX_PASSKEYS,
      isConfirmed: isConfirmed(res),
      confirm: toAddress('/confirm', { next: BASE }),
    });
  };

  router.get('/account/passkeys', (req, res) => show(req, res, newForm()));

  addOptions(router, deps, dangerousAuthor, waiting);

  router.post(
    '/account/passkeys',
    formRoute({
      async act(req, res, fields) {
        const author = dangerousAuthor(req, res);
        const { name, passkey } = parseInput(addSchema, filledIn(fields));
        if (name.trim() === '') throw fieldError('name', 'must not be blank');
        const added = await limitGuesses(deps, req, res, async () => {
          const made = await readNewPasskey(db.orm, siteOf(req), passkey, waiting(res));
          if (made) return addPasskey(deps, author, made, name.trim());
          markGuess(res, false);
          await change(deps, byProof, (tx) => audit(tx, author, 'user.passkey_refused', { at: 'adding' }));
          throw new AppError('invalid_request', 'This passkey could not be checked. Try to add it again.');
        });
        if (added.token !== undefined) sendToken(req, added.token);
        if (added.recoveryCodes) await showRecoveryCodes(deps, req, res, added.recoveryCodes, true);
        else res.redirect(303, toAddress(BASE, { done: 'added' }));
      },
      show,
      codes: refusals,
    }),
  );

  router.post(
    '/account/passkeys/remove',
    formRoute({
      async act(req, res, fields) {
        const author = dangerousAuthor(req, res);
        const { id } = parseInput(removeSchema, filledIn(fields));
        const { token } = await removePasskey(deps, author, id);
        if (token !== undefined) sendToken(req, token);
        res.redirect(303, toAddress(BASE, { done: token === undefined ? 'removed' : 'last-removed' }));
      },
      show,
      codes: refusals,
    }),
  );
  return router;
}

/** What browsers make and use passkeys from. */
function addOptions(
  router: Router,
  deps: AccountDeps,
  dangerousAuthor: (req: Request, res: Response) => Author,
  waiting: (res: Response) => { hashedToken: string; now: Date },
): void {
  router.post('/account/passkeys/new-options', async (req, res) => {
    const options = await change(deps, dangerousAuthor(req, res), (tx) =>
      createNewOptions(tx, siteOf(req), personOf(res), waiting(res)),
    );
    sendJson(res, 200, toJson(options));
  });

  // Where a passkey stands in for a code.
  router.post('/account/passkeys/options', async (req, res) => {
    const { userId, sessionId: hashedToken } = personOf(res);
    await sendUseOptions(deps, req, res, { by: byPerson(res), userId, hashedToken });
  });
}
