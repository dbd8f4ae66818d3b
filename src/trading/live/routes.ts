import { Router } from 'express';
import { byOperator } from '../../identity/session/authority.js';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { MAX_BODY_BYTES, readSlug, sourceOf } from '../../identity/operator/http.js';
import { getOrganization } from '../../identity/organizations/operator/organizations.js';
import type { LiveTrading } from './live.js';
import { offJson, reportJson } from './report-json.js';
import { acceptSchema } from './schema.js';

const PATH = '/organizations/:slug/trading/reconciliation';

/** For whoever runs the service: how the live account compares with the venue's, and the word that ends a difference. */
export function reconciliationRoutes({ db, clock, config }: Context, live: LiveTrading | undefined): Router {
  const router = Router();
  const liveOf = (slug: string) => (config.trading.liveOrg === slug ? live : undefined);

  router.get(PATH, async (req, res) => {
    const { slug } = await getOrganization(db.orm, readSlug(req));
    const own = liveOf(slug);
    sendJson(res, 200, toJson(own ? reportJson(own.report) : offJson(slug)));
  });

  router.put(PATH, async (req, res) => {
    const name = readSlug(req);
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    parseInput(acceptSchema, value);
    const { slug } = await getOrganization(db.orm, name);
    const own = liveOf(slug);
    if (!own)
      throw new AppError(
        'live_trading_disabled',
        `The Organization "${slug}" does not trade live on this server.`,
      );
    const { accepted, report } = await own.accept(sourceOf(req, res, clock), byOperator(res));
    sendJson(res, 200, toJson({ accepted, reconciliation: reportJson(report) }));
  });

  return router;
}
