import type { Router } from 'express';
import type { SecretBox } from '../second-factor/secret-box.js';
import { limitConfirmations, type SignInLimits } from '../sign-in/sign-in-limits.js';
import type { Context } from '../../core/http/context.js';
import { pageRouter } from '../../core/pages/page-router.js';
import type { AccountDeps } from './page.js';
import { passwordPages } from './password-pages.js';
import { profilePages } from './profile-pages.js';
import { secondFactorPages } from './second-factor-pages.js';
import { sessionPages } from './session-pages.js';

/** `/dashboard/account`: what belongs to a person, whether or not they belong to an Organization. */
export function accountPages(
  { db, clock, limitStores }: Context,
  { limits, secrets }: { limits: SignInLimits; secrets: SecretBox },
): Router {
  const deps: AccountDeps = { db, clock, secrets, limits: limitConfirmations(limitStores, limits) };
  const router = pageRouter();
  router.use(profilePages(deps));
  router.use(passwordPages(deps));
  router.use(secondFactorPages(deps));
  router.use(sessionPages(deps));
  return router;
}
