import type { Request, RequestHandler, Response, Router } from 'express';
import { z } from 'zod';
import { beginSecretPage } from '../core/http/headers.js';
import { originOf } from '../core/http/request.js';
import { nameField, parseInput } from '../core/http/validate.js';
import { toAddress } from '../core/pages/address.js';
import {
  postForm,
  addForm,
  fieldError,
  newForm,
  refuseIgnored,
  textField,
  type FormState,
} from '../core/pages/form.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { checkPassword, type Author } from '../accounts/identity/account/account.js';
import { authorOf, limitGuesses, type AccountDeps } from '../accounts/identity/account/page.js';
import { confirmSchema, filledIn, setupSchema } from '../accounts/identity/account/schema.js';
import { toQrCode } from '../accounts/identity/account/second-factor-pages.js';
import { beginSetup, finishSetup, toKeyUri } from '../accounts/identity/account/second-factor.js';
import { addLinkPages, limitLinkGuesses } from '../accounts/identity/links/link-pages.js';
import { inviteAsOperator, toInvitationLink } from '../accounts/identity/members/invitations.js';
import { putMember } from '../accounts/identity/members/members.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { emailSchema, slugSchema } from '../accounts/identity/operator/schema.js';
import { becomeOperator, findOperatorLink } from '../accounts/identity/operators/operators.js';
import { MAX_PASSWORD, MIN_PASSWORD } from '../accounts/identity/password.js';
import { findSetup } from '../accounts/identity/second-factor/queries.js';
import { byPerson, isConfirmedAt, operatorsOnly } from '../accounts/identity/session/authority.js';
import { requireConfirmation, requireOperatorPerson } from '../accounts/identity/session/operator.js';
import { sendToken } from '../accounts/identity/session/session-cookie.js';
import {
  arrivalOf,
  personOf,
  requirePerson,
  type ReadSession,
} from '../accounts/identity/session/session.js';
import { normalizeEmail } from '../accounts/identity/sign-in/sign-in.js';
import type { Context } from '../core/http/context.js';
import { findInvitedOwner, findOwnerless, hasOwner, readNextStep, type SetUpStep } from './set-up.js';

const SET_UP = '/set-up';
const frame = 'card' as const;

interface SetUpDeps extends AccountDeps, Pick<Context, 'limitStores' | 'config'> {
  steps: readonly SetUpStep[];
}

const personSchema = z.strictObject({
  name: nameField.optional(),
  email: emailSchema.optional(),
  /** The password rules check new ones. */
  password: z.string().max(MAX_PASSWORD, `must have at most ${MAX_PASSWORD} characters`),
});

const OWNER_DAYS = 7;

const ownerSchema = z.strictObject({
  /** Another one may be the first without an owner by the time the form is submitted. */
  organization: slugSchema,
  owner: z.enum(['me', 'other'], 'must be you or another person'),
  email: emailSchema.optional(),
});

export function setUpPages(deps: SetUpDeps, readSession: ReadSession): Router {
  const router = pageRouter();
  const operatorsAlone: RequestHandler = (_req, res, next) => {
    if (!personOf(res).isOperator) throw operatorsOnly();
    next();
  };
  const signedIn = requirePerson(readSession);
  addPersonPages(router, deps, readSession);
  addFactorPages(router, deps, [signedIn, operatorsAlone]);
  addSteps(router, deps, [signedIn, requireOperatorPerson]);
  addOwnerPages(router, deps, [signedIn, requireOperatorPerson, requireConfirmation(deps.clock)]);
  return router;
}

function addPersonPages(router: Router, deps: SetUpDeps, readSession: ReadSession): void {
  const { db, clock } = deps;
  const { opened, wrongLinks, showOpen, showGone } = addLinkPages(router, deps, {
    base: SET_UP,
    name: 'set_up',
    title: 'Set up Gauge',
    origin:
      'Until an operator exists, Gauge prints a link on the terminal and in its log whenever it starts.',
    advice: 'Until an operator exists, restart Gauge or run npm run setup-link for a new one.',
  });
  const guesses = limitLinkGuesses(deps.limitStores, 'set_up', opened);

  const showPerson = async (req: Request, res: Response, form: FormState) => {
    const { email } = await findOperatorLink(db.orm, opened.read(req), new Date(clock.now()));
    const limits = { min: MIN_PASSWORD, max: MAX_PASSWORD };
    const page = { view: 'set-up/person', title: 'Set up Gauge: your account', frame };
    await renderPage(deps, req, res, page, { form, invited: email, ...limits });
  };

  router.get(SET_UP, wrongLinks, async (req, res) => {
    const person = await readSession(req);
    res.locals.person = person;
    if (opened.read(req) !== undefined) await showPerson(req, res, newForm());
    else if (!person?.isOperator) await showOpen(req, res, newForm());
    else if (!person.hasSecondFactor) await showFactor(deps, req, res, newForm());
    else await showNext(deps, req, res, person.orgId !== null);
  });

  postForm(router, `${SET_UP}/person`, {
    before: [wrongLinks, guesses],
    async act(req, res, fields) {
      const email = textField(fields, 'email');
      const typed = { ...fields, ...(email === undefined ? {} : { email: normalizeEmail(email) }) };
      const input = parseInput(personSchema, filledIn(typed));
      const token = opened.read(req);
      const link = await findOperatorLink(db.orm, token, new Date(clock.now()));
      if (link.email === null && input.email === undefined) throw fieldError('email', 'is required');
      const person = { ...input, name: input.name?.trim(), email: input.email };
      const session = await becomeOperator(deps, token, person, arrivalOf(req, res, clock));
      sendToken(req, session.token);
      opened.forget(req, res);
      if (!session.isCodeDue) {
        res.locals.person = await readSession(req);
        await beginSetup(deps, confirmedAuthor(deps, req, res), undefined);
      }
      res.redirect(303, session.isCodeDue ? toAddress('/login/code', { next: SET_UP }) : SET_UP);
    },
    show: showPerson,
  });
  router.use(SET_UP, showGone);
}

async function showNext(deps: SetUpDeps, req: Request, res: Response, isMember: boolean): Promise<void> {
  const now = new Date(deps.clock.now());
  const step = await readNextStep(deps.db.orm, deps.steps, now);
  if (typeof step === 'object') return showStep(deps, step, req, res, newForm(step.given));
  if (step === 'owner') return res.redirect(303, `${SET_UP}/owner`);
  const organization = (await hasOwner(deps.db.orm)) ? undefined : await findOwnerless(deps.db.orm);
  // Operators without an Organization are also sent here after every sign-in.
  if (!organization && !isMember) return res.redirect(303, '/console');
  const invited = organization && (await findInvitedOwner(deps.db.orm, organization.id, now));
  const page = { view: 'set-up/done', title: 'Gauge is set up', frame };
  await renderPage(deps, req, res, page, { isMember, organization, invited });
}

function addFactorPages(router: Router, deps: SetUpDeps, guards: RequestHandler[]): void {
  const show = (req: Request, res: Response, form: FormState) => showFactor(deps, req, res, form);

  postForm(router, `${SET_UP}/second-factor`, {
    before: guards,
    async act(req, res, fields) {
      if (fields.currentPassword === undefined && isConfirmed(deps, res)) {
        await beginSetup(deps, confirmedAuthor(deps, req, res), undefined);
      } else {
        const { currentPassword } = parseInput(confirmSchema, filledIn(fields));
        const author = authorOf(deps, req, res);
        const person = await limitGuesses(deps, req, res, () =>
          checkPassword(deps.db.orm, author, currentPassword),
        );
        await beginSetup(deps, author, person);
      }
      res.redirect(303, SET_UP);
    },
    show,
  });

  postForm(router, `${SET_UP}/second-factor/confirm`, {
    before: guards,
    async act(req, res, fields) {
      const { code } = parseInput(setupSchema, filledIn(fields));
      const { recoveryCodes, token } = await finishSetup(deps, authorOf(deps, req, res), code);
      sendToken(req, token);
      const page = { view: 'set-up/recovery-codes', title: 'Your recovery codes', frame };
      beginSecretPage(res, 200);
      await renderPage(deps, req, res, page, { recoveryCodes });
    },
    show,
  });
}

/** For a few minutes after a sign-in with the password. */
const isConfirmed = ({ clock }: SetUpDeps, res: Response): boolean =>
  isConfirmedAt(personOf(res), new Date(clock.now()));

const confirmedAuthor = (deps: SetUpDeps, req: Request, res: Response): Author => ({
  ...authorOf(deps, req, res),
  ...byPerson(res, true),
});

async function showFactor(deps: SetUpDeps, req: Request, res: Response, form: FormState): Promise<void> {
  const { email, ...person } = personOf(res);
  if (person.hasSecondFactor) return res.redirect(303, SET_UP);
  const stored = await findSetup(deps.db.orm, person);
  const secret = stored === undefined ? undefined : deps.secrets.open(person.userId, stored);
  const uri = secret === undefined ? undefined : toKeyUri(email, secret);
  const app = uri === undefined ? {} : { uri, qr: toQrCode(uri), groups: secret!.match(/.{4}/g) };
  const page = { view: 'set-up/second-factor', title: 'Set up Gauge: second factor', frame };
  const needsPassword = !isConfirmed(deps, res);
  await renderPage(deps, req, res, page, { form, needsPassword, uri: undefined, ...app });
}

function addSteps(router: Router, deps: SetUpDeps, guards: RequestHandler[]): void {
  for (const step of deps.steps)
    postForm(router, `${SET_UP}/${step.path}`, {
      before: guards,
      async act(req, res, fields) {
        await changeAsOperator(deps, req, res, step.read(fields));
        res.redirect(303, SET_UP);
      },
      show: (req, res, form) => showStep(deps, step, req, res, form),
    });
}

const showStep = (
  deps: SetUpDeps,
  { view, title, data }: SetUpStep,
  req: Request,
  res: Response,
  form: FormState,
): Promise<void> =>
  renderPage(deps, req, res, { view, title: `Set up Gauge: ${title}`, frame }, { ...data, form });

function addOwnerPages(router: Router, deps: SetUpDeps, guards: RequestHandler[]): void {
  const { db } = deps;
  const { mail } = deps.config;

  addForm(router, `${SET_UP}/owner`, {
    before: guards,
    async act(req, res, fields) {
      const typed = textField(fields, 'email');
      const email = typed === undefined ? {} : { email: normalizeEmail(typed) };
      const input = parseInput(ownerSchema, filledIn({ ...fields, ...email }));
      refuseIgnored(fields, 'email', input.owner === 'other', 'choose another person');
      const { userId, email: own } = personOf(res);
      const owner = input.owner === 'me' ? own : input.email;
      if (owner === undefined) throw fieldError('email', 'is required');
      const made = await changeAsOperator(deps, req, res, async (tx, source) => {
        const organization = await findOwnerless(tx, input.organization);
        if (!organization) return undefined;
        const { id, slug } = organization;
        if (input.owner === 'me') return void (await putMember(tx, slug, own, { role: 'owner' }, source));
        const invited = { email: owner, role: 'owner', days: OWNER_DAYS } as const;
        return { organization, ...(await inviteAsOperator(tx, id, invited, userId, source, mail)) };
      });
      if (!made) return res.redirect(303, input.owner === 'me' ? '/dashboard' : SET_UP);
      const { organization, token, expiresAt } = made;
      const link = token && toInvitationLink(originOf(req), token);
      beginSecretPage(res);
      const page = { view: 'set-up/invited', title: 'Invitation created', frame };
      await renderPage(deps, req, res, page, { email: owner, organization, link, expiresAt });
    },
    async show(req, res, form) {
      const organization = await findOwnerless(db.orm);
      if (!organization) return res.redirect(303, SET_UP);
      const page = { view: 'set-up/owner', title: 'Set up Gauge: the owner', frame };
      await renderPage(deps, req, res, page, {
        form,
        organization,
        days: OWNER_DAYS,
        hasMail: mail !== undefined,
      });
    },
  });
}
