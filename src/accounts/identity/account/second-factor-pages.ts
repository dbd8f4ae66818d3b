import type { Request, Response, Router } from 'express';
import { encode } from 'uqr';
import { z } from 'zod';
import { byProof, change } from '../../audit/audit.js';
import { AppError, type ErrorCode } from '../../../core/errors.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { beginSecretPage } from '../../../core/http/headers.js';
import { parseInput, text } from '../../../core/http/validate.js';
import { toAddress } from '../../../core/pages/address.js';
import { postForm, addForm, fieldError, type FormState } from '../../../core/pages/form.js';
import { pageRouter } from '../../../core/pages/layout.js';
import { listPasskeys, MAX_PASSKEYS } from '../second-factor/passkey-queries.js';
import {
  createNewOptions,
  credentialIdSchema,
  newPasskeySchema,
  readNewPasskey,
  sendUseOptions,
  siteOf,
} from '../second-factor/passkeys.js';
import { findFactors, findSetup } from '../second-factor/queries.js';
import { byPerson, ConfirmationDue, isConfirmedAt } from '../session/authority.js';
import { sendToken } from '../session/session-cookie.js';
import { personOf } from '../session/session.js';
import { markGuess } from '../sign-in/sign-in-limits.js';
import { audit, type Author } from './account.js';
import {
  ACCOUNT,
  authorOf,
  confirmed,
  limitGuesses,
  prove,
  renderAccount,
  type AccountDeps,
} from './page.js';
import { confirmSchema, filledIn, proofSchema, setupSchema } from './schema.js';
import {
  addPasskey,
  beginSetup,
  finishSetup,
  readSecondFactor,
  removePasskey,
  renewRecoveryCodes,
  toKeyUri,
  turnOff,
  type SecondFactorState,
} from './second-factor.js';

const BASE = `${ACCOUNT}/second-factor`;

const tab = 'second-factor';

/** Here, `forbidden_role` means that an Organization requires the second factor. */
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['forbidden_role']);

const notices = {
  off: 'The second factor is off. All your other sessions have ended.',
  'app-off': 'The authenticator app is off. All your other sessions have ended.',
  on: 'The second factor is already on.',
  ended: 'That set-up has expired. Start again here.',
  required: 'Your Organization requires a second factor. Set yours up to continue.',
};

export function secondFactorPages(deps: AccountDeps): Router {
  const { db } = deps;
  const router = pageRouter();

  addForm(router, '/account/second-factor', {
    async act(req, res, fields) {
      const { currentPassword } = parseInput(confirmSchema.partial(), filledIn(fields));
      const { author, person } = await limitGuesses(deps, req, res, () =>
        prove(deps, req, res, currentPassword),
      );
      await beginSetup(deps, author, person);
      res.redirect(303, `${BASE}/setup`);
    },
    async show(req, res, form) {
      const factor = await readSecondFactor(db.orm, personOf(res).userId);
      const page = { view: 'second-factor', title: 'Second factor', notices };
      await renderAccount(deps, req, res, page, { form, factor });
    },
  });

  addSetupPages(router, deps);
  addConfirmedPages(router, deps);
  return router;
}

function addSetupPages(router: Router, deps: AccountDeps): void {
  const { db } = deps;

  addForm(router, '/account/second-factor/setup', {
    async act(req, res, fields) {
      const { code } = parseInput(setupSchema, filledIn(fields));
      const { recoveryCodes, token } = await finishSetup(deps, authorOf(deps, req, res), code);
      sendToken(req, token);
      await showRecoveryCodes(deps, req, res, recoveryCodes, true);
    },
    async show(req, res, form) {
      const { email, ...person } = personOf(res);
      const stored = await findSetup(db.orm, person);
      if (stored === undefined) {
        const { since } = await readSecondFactor(db.orm, person.userId);
        res.redirect(303, toAddress(BASE, { done: since ? 'on' : 'ended' }));
        return;
      }
      const secret = deps.secrets.open(person.userId, stored);
      const uri = toKeyUri(email, secret);
      const page = { view: 'second-factor-setup', tab, title: 'Set up the second factor' };
      await renderAccount(deps, req, res, page, {
        form,
        uri,
        qr: toQrCode(uri),
        groups: secret.match(/.{4}/g),
      });
    },
  });
}

/** Shown only once, so this page has no URL of its own. */
function showRecoveryCodes(
  deps: AccountDeps,
  req: Request,
  res: Response,
  recoveryCodes: string[],
  isNew: boolean,
): Promise<void> {
  const page = { view: 'recovery-codes', tab, title: 'Your recovery codes' };
  beginSecretPage(res, 200);
  return renderAccount(deps, req, res, page, { recoveryCodes, isNew });
}

function addConfirmedPages(router: Router, deps: AccountDeps): void {
  const { db } = deps;

  const showConfirmation =
    (view: string, title: string, isOn: (factor: SecondFactorState) => boolean) =>
    async (req: Request, res: Response, form: FormState) => {
      const factor = await readSecondFactor(db.orm, personOf(res).userId);
      if (!isOn(factor)) res.redirect(303, BASE);
      else await renderAccount(deps, req, res, { view, tab, title }, { form, factor, ...factor });
    };

  const showRenewal = showConfirmation(
    'recovery-codes-new',
    'New recovery codes',
    ({ hasApp, hasPasskeys }) => hasApp || hasPasskeys,
  );
  addForm(router, '/account/second-factor/recovery-codes', {
    async act(req, res, fields) {
      const input = parseInput(proofSchema, filledIn(fields));
      const recoveryCodes = await confirmed(deps, req, res, input, (author, person, given) =>
        renewRecoveryCodes(deps, author, person, given),
      );
      await showRecoveryCodes(deps, req, res, recoveryCodes, false);
    },
    show: showRenewal,
  });

  const showTurnOff = showConfirmation(
    'second-factor-off',
    'Turn off the authenticator app',
    ({ hasApp }) => hasApp,
  );
  addForm(router, '/account/second-factor/off', {
    async act(req, res, fields) {
      const input = parseInput(proofSchema, filledIn(fields));
      const { token, wasLast } = await confirmed(deps, req, res, input, (author, person, given) =>
        turnOff(deps, author, person, given),
      );
      sendToken(req, token);
      res.redirect(303, toAddress(BASE, { done: wasLast ? 'off' : 'app-off' }));
    },
    show: showTurnOff,
    codes: refusals,
  });
}

const PASSKEYS = `${ACCOUNT}/passkeys`;

const passkeyNotices = {
  added: 'The passkey is added.',
  removed: 'The passkey is removed.',
  'last-removed': 'The passkey is removed, and the second factor is off. All your other sessions have ended.',
};

const addSchema = z.strictObject({ name: text(100), passkey: newPasskeySchema });
const removeSchema = z.strictObject({ id: credentialIdSchema });

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
    const { userId } = personOf(res);
    const passkeys = await listPasskeys(db.orm, userId);
    const { hasApp } = await findFactors(db.orm, userId);
    const page = { view: 'passkeys', title: 'Passkeys', notices: passkeyNotices };
    await renderAccount(deps, req, res, page, {
      form,
      passkeys,
      hasApp,
      max: MAX_PASSKEYS,
      isConfirmed: isConfirmed(res),
      confirm: toAddress('/confirm', { next: PASSKEYS }),
    });
  };

  router.post('/account/passkeys/new-options', async (req, res) => {
    const options = await change(deps, dangerousAuthor(req, res), (tx) =>
      createNewOptions(tx, siteOf(req), personOf(res), waiting(res)),
    );
    sendJson(res, 200, toJson(options));
  });

  router.post('/account/passkeys/options', async (req, res) => {
    const { userId, sessionId: hashedToken } = personOf(res);
    await sendUseOptions(deps, req, res, { by: byPerson(res), userId, hashedToken });
  });

  addForm(router, '/account/passkeys', {
    async act(req, res, fields) {
      const author = dangerousAuthor(req, res);
      const { name, passkey } = parseInput(addSchema, filledIn(fields));
      if (name.trim() === '') throw fieldError('name', 'must not be blank');
      const added = await limitGuesses(deps, req, res, async () => {
        const made = await readNewPasskey(db.orm, siteOf(req), passkey, waiting(res));
        if (made) return addPasskey(deps, author, made, name.trim());
        markGuess(res, false);
        await change(deps, byProof, (tx) => audit(tx, author, 'user.passkey_refused', { at: 'adding' }));
        throw new AppError('invalid_request', 'This passkey could not be verified. Try adding it again.');
      });
      if (added.token !== undefined) sendToken(req, added.token);
      if (added.recoveryCodes) await showRecoveryCodes(deps, req, res, added.recoveryCodes, true);
      else res.redirect(303, toAddress(PASSKEYS, { done: 'added' }));
    },
    show,
    codes: refusals,
  });

  postForm(router, '/account/passkeys/remove', {
    async act(req, res, fields) {
      const author = dangerousAuthor(req, res);
      const { id } = parseInput(removeSchema, filledIn(fields));
      const { token } = await removePasskey(deps, author, id);
      if (token !== undefined) sendToken(req, token);
      res.redirect(303, toAddress(PASSKEYS, { done: token === undefined ? 'removed' : 'last-removed' }));
    },
    show,
    codes: refusals,
  });
  return router;
}

/** With a quiet zone of 4 modules (ISO/IEC 18004, 5.3.8). `path` is SVG path data, one unit per module. */
export function toQrCode(text: string) {
  const { size, data } = encode(text, { ecc: 'M', border: 4 });
  const path = data.flatMap((row, y) =>
    runsOf(row).map(([x, length]) => `M${x} ${y}h${length}v1h-${length}z`),
  );
  return { size, path: path.join('') };
}

/** Hairlines would show between separate modules. */
function runsOf(row: boolean[]): [start: number, length: number][] {
  const runs: [number, number][] = [];
  for (const [x, isDark] of row.entries()) {
    if (!isDark) continue;
    const last = runs.at(-1);
    if (last && last[0] + last[1] === x) last[1]++;
    else runs.push([x, 1]);
  }
  return runs;
}
