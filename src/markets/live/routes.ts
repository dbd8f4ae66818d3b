import { byOperator } from '../../accounts/identity/session/authority.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { MAX_BODY_BYTES, readSlug, sourceOf } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import type { LiveTrading } from './live.js';
import { offJson, reportJson } from './report.js';
import { acceptSchema, acceptedSchema, reconciliationSchema } from './schema.js';
import { json } from '../../core/reference/define-route.js';
import type { Context } from '../../core/http/context.js';
import { operatorRoute } from '../../accounts/identity/operator/define-route.js';

export interface LiveDeps extends Context {
  live: LiveTrading | undefined;
}

const path = '/operator/organizations/{slug}/trading/reconciliation';

export const reconciliationRoutes = [
  operatorRoute({
    at: `GET ${path}`,
    operationId: 'getReconciliation',
    responses: { 200: json('The comparison.', reconciliationSchema) },
    async answer({ params }, deps: LiveDeps) {
      const { slug } = await getOrganization(deps.db.orm, params.slug);
      const own = liveOf(deps, slug);
      return own ? reportJson(own.report) : offJson(slug);
    },
  }),
  operatorRoute({
    at: `PUT ${path}`,
    operationId: 'acceptReconciliation',
    body: acceptSchema,
    responses: { 200: json('The accepted differences.', acceptedSchema) },
    handler: (deps: LiveDeps) => async (req, res) => {
      const name = readSlug(req);
      const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
      parseInput(acceptSchema, value);
      const { slug } = await getOrganization(deps.db.orm, name);
      const own = liveOf(deps, slug);
      if (!own)
        throw new AppError(
          'live_trading_disabled',
          `The Organization "${slug}" does not trade live on this server.`,
        );
      const { accepted, report } = await own.accept(sourceOf(req, res, deps.clock), byOperator(res));
      sendJson(res, 200, toJson({ accepted, reconciliation: reportJson(report) }));
    },
  }),
];

const liveOf = ({ config, live }: LiveDeps, slug: string) =>
  config.trading.liveOrg === slug ? live : undefined;
