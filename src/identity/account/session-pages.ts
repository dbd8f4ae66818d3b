import type { Request, Response, Router } from 'express';
import { personOf } from '../session/session.js';
import { clearToken } from '../session/session-cookie.js';
import { readPathId } from '../../core/http/path-id.js';
import { toAddress } from '../../core/pages/address.js';
import { formRoute, newForm, type FormState } from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { endSession, signOutEverywhere } from './account.js';
import { describeAddress, describeBrowser } from './browser-name.js';
import { ACCOUNT, authorOf, renderAccount, type AccountDeps } from './page.js';
import { countSessions, listSessions } from './queries.js';

/** As many sessions as the page shows. */
const MAX_SESSIONS = 100;
const BASE = `${ACCOUNT}/sessions`;

const notices = { ended: 'The session has ended.' };

export function sessionPages(deps: AccountDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const { userId, sessionId } = personOf(res);
    const now = new Date(clock.now());
    const rows = await listSessions(db.orm, userId, sessionId, now, MAX_SESSIONS);
    const total = rows.length < MAX_SESSIONS ? rows.length : await countSessions(db.orm, userId, now);
    const page = { view: 'sessions', tab: 'sessions', title: 'Your sessions', notices } as const;
    await renderAccount(deps, req, res, page, {
      form,
      total,
      sessions: rows.map(({ ip, userAgent, ...session }) => ({
        ...session,
        browser: describeBrowser(userAgent),
        address: describeAddress(ip),
      })),
    });
  };

  router.get('/account/sessions', (req, res) => show(req, res, newForm()));

  router.post(
    '/account/sessions/:id/end',
    formRoute({
      async act(req, res) {
        const author = authorOf(deps, req, res);
        const ended = await endSession(deps, author, readPathId(req, 'id', 'session'));
        if (ended !== author.sessionId) {
          res.redirect(303, toAddress(BASE, { done: 'ended' }));
          return;
        }
        clearToken(req);
        res.redirect(303, toAddress('/login', { done: 'signed-out' }));
      },
      show,
    }),
  );

  router.post(
    '/account/sign-out-everywhere',
    formRoute({
      async act(req, res) {
        await signOutEverywhere(deps, authorOf(deps, req, res));
        clearToken(req);
        res.redirect(303, toAddress('/login', { done: 'signed-out-everywhere' }));
      },
      show,
    }),
  );
  return router;
}
