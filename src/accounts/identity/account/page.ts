import type { Request, RequestHandler, Response } from 'express';
import type { z } from 'zod';
import { byPerson, isConfirmedAt } from '../session/authority.js';
import { auditRefusedFactor, type GivenFactor } from '../second-factor/codes.js';
import { siteOf } from '../second-factor/passkeys.js';
import type { SecretBox } from '../../../core/secret-box.js';
import { change, byProof } from '../../audit/audit.js';
import { personOf, whereaboutsOf } from '../session/session.js';
import { markGuess, type LimitFactor } from '../sign-in/sign-in-limits.js';
import type { Context } from '../../../core/http/context.js';
import { hangUpSignal } from '../../../core/http/request.js';
import { toAddress } from '../../../core/pages/address.js';
import { fieldError } from '../../../core/pages/form.js';
import { renderPage, type Page } from '../../../core/pages/layout.js';
import { passLimits } from '../../../core/http/rate-limit.js';
import { findUser, type User } from '../users/queries.js';
import { checkPassword, WrongGuess, type Author } from './account.js';
import type { proofSchema } from './schema.js';

export interface AccountDeps extends Pick<Context, 'db' | 'clock' | 'config'> {
  secrets: SecretBox;
  limits: RequestHandler[];
  limitFactor: LimitFactor;
}

export const ACCOUNT = '/dashboard/account';

const tabs = [
  { id: 'profile', href: ACCOUNT, label: 'Profile' },
  { id: 'password', href: `${ACCOUNT}/password`, label: 'Password' },
  { id: 'second-factor', href: `${ACCOUNT}/second-factor`, label: 'Second factor' },
  { id: 'passkeys', href: `${ACCOUNT}/passkeys`, label: 'Passkeys' },
  { id: 'single-sign-on', href: `${ACCOUNT}/single-sign-on`, label: 'Single sign-on' },
  { id: 'sessions', href: `${ACCOUNT}/sessions`, label: 'Sessions' },
];

/** @param page its view is under `views/accounts/account`, and names its tab unless `tab` does */
export function renderAccount(
  deps: AccountDeps,
  req: Request,
  res: Response,
  { view, tab = view, ...page }: Page & { tab?: string },
  data: object,
): Promise<void> {
  const offered = tabs.filter(({ id }) => id !== 'single-sign-on' || tab === id || deps.config.singleSignOn);
  const shown = { ...page, view: `accounts/account/${view}` };
  return renderPage(deps, req, res, shown, {
    ...data,
    proof: issuerProof(deps, res, req.originalUrl),
    tabs: offered.map(({ id, href, label }) => ({ href, label, isCurrent: id === tab })),
  });
}

export const authorOf = ({ clock }: AccountDeps, req: Request, res: Response): Author => ({
  ...byPerson(res),
  ...whereaboutsOf(req, res, clock),
  email: personOf(res).email,
  gone: hangUpSignal(res),
});

/** In a single sign-on session, the person may have no password. */
function isConfirmedByIssuer({ clock }: AccountDeps, res: Response): boolean {
  const person = personOf(res);
  return person.singleSignOnAt !== null && isConfirmedAt(person, new Date(clock.now()));
}

export const issuerProof = (deps: AccountDeps, res: Response, next: string) =>
  deps.config.singleSignOn && {
    name: deps.config.singleSignOn.name,
    isConfirmed: isConfirmedByIssuer(deps, res),
    href: toAddress('/login/single-sign-on', { confirm: 'yes', next }),
  };

export async function prove(
  deps: AccountDeps,
  req: Request,
  res: Response,
  currentPassword: string | undefined,
): Promise<{ author: Author; person: User }> {
  const author = authorOf(deps, req, res);
  if (currentPassword !== undefined)
    return { author, person: await checkPassword(deps.db.orm, author, currentPassword) };
  const person = isConfirmedByIssuer(deps, res)
    ? await findUser(deps.db.orm, { id: author.userId })
    : undefined;
  if (!person) throw fieldError('currentPassword', 'is required');
  return { author: { ...author, ...byPerson(res, true) }, person };
}

export function confirmed<T>(
  deps: AccountDeps,
  req: Request,
  res: Response,
  { currentPassword, ...factor }: z.output<typeof proofSchema>,
  work: (author: Author, person: User, given: GivenFactor) => Promise<T>,
): Promise<T> {
  return limitGuesses(deps, req, res, async () => {
    const { author, person } = await prove(deps, req, res, currentPassword);
    if (factor.code !== undefined || factor.passkey) await deps.limitFactor(req, res, author.email);
    return work(author, person, { ...factor, site: siteOf(req), hashedToken: personOf(res).sessionId });
  });
}

export async function limitGuesses<T>(
  deps: AccountDeps,
  req: Request,
  res: Response,
  work: () => Promise<T>,
): Promise<T> {
  await passLimits(req, res, deps.limits);
  try {
    return await work();
  } catch (error) {
    if (error instanceof WrongGuess) {
      markGuess(res, false);
      // The refused change was rolled back, so this needs its own transaction.
      const { factor } = error;
      const author = authorOf(deps, req, res);
      if (factor)
        await change(deps, byProof, (tx) =>
          auditRefusedFactor(tx, author, factor, author, { at: 'confirmation' }),
        );
    }
    throw error;
  }
}
