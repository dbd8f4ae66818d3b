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
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import type { Context } from '../../core/http/context.js';
import { notFoundExample, now, operatorRoute } from '../../accounts/identity/operator/define-route.js';

export interface LiveDeps extends Context {
  live: LiveTrading | undefined;
}

const path = '/operator/organizations/{slug}/trading/reconciliation';
const params = { slug: 'acme' };
const unknown = 'There is no Organization "initech".';
const disabled = 'The Organization "acme" does not trade live on this server.';

export const reconciliationRoutes = [
  operatorRoute({
    method: 'get',
    path,
    operationId: 'getReconciliation',
    summary: 'Compare the live account with the venue',
    description:
      "The latest comparison of the Organization's orders, fills, positions and cash with the venue's. This instance compares at its start and every minute. Live trading is closed until both agree.",
    responses: {
      200: json('The comparison.', reconciliationSchema),
    },
    examples: [
      {
        name: 'off',
        summary: 'An Organization without live trading',
        request: { params },
        answer: offJson('acme'),
      },
      notFoundExample(unknown, { params: { slug: 'initech' } }),
    ],
    handler: (deps: LiveDeps) => async (req, res) => {
      const { slug } = await getOrganization(deps.db.orm, readSlug(req));
      const own = liveOf(deps, slug);
      sendJson(res, 200, toJson(own ? reportJson(own.report) : offJson(slug)));
    },
  }),
  operatorRoute({
    method: 'put',
    path,
    operationId: 'acceptReconciliation',
    summary: 'Accept the venue’s figures where they differ',
    description:
      'Compares again and accepts every difference. Cash is corrected by an `adjustment` in the ledger, extra contracts at the venue count as those of others, and differing orders are not reported again. An audit row has the accepted differences. This also reopens trading after an unreadable response of the venue. If both agree, nothing changes. 503 `unavailable` while the venue cannot be read or the outcome of an order is unknown.',
    body: acceptSchema,
    responses: {
      200: json('The accepted differences.', acceptedSchema),
    },
    examples: [
      {
        name: 'accepted',
        summary: 'Cash withdrawn at the venue',
        circumstance: 'trading_live',
        request: { params, body: { accept: true } },
        answer: {
          accepted: [{ kind: 'cash', subject: 'cash', ours: '1000.0000', venues: '990.0000' }],
          reconciliation: { ...offJson('acme'), state: 'open', comparedAt: now, agreedAt: now },
        },
      },
      problemExample('live_trading_disabled', {
        summary: 'An Organization without live trading',
        detail: disabled,
        request: { params, body: { accept: true } },
      }),
      invalidExample('`accept` is not true', { params, body: { accept: false } }),
      notFoundExample(unknown, { params: { slug: 'initech' }, body: { accept: true } }),
    ],
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
