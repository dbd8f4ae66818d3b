import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { changeAsMember } from '../../accounts/identity/session/authority.js';
import { requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { alertRoles, isManager, maySetAlerts, type Role } from '../../accounts/organizations/table.js';
import { toEndpointView } from '../../accounts/webhooks/view.js';
import type { Context } from '../../core/http/context.js';
import { readPathId } from '../../core/http/request.js';
import { parseInput } from '../../core/http/validate.js';
import { newForm, postForm, readQuery, textField, type FormState } from '../../core/pages/form.js';
import { formatDecimal, formatShare, toNamedOptions } from '../../core/pages/format.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { readCredits } from '../credit-grants/credits.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import {
  addAlert,
  listAlertEndpoints,
  listAlerts,
  listCapped,
  readPastBurns,
  removeAlert,
} from './alerts.js';
import { creditAlertKinds, creditKindOf, creditLevel, creditsOfDay } from './kinds.js';
import { listRecipients } from './notices.js';

const ALERTS = '/dashboard/usage/alerts';

/** `cap` is a product, and `level` is in percent of its cap. Otherwise it is in credits. */
const alertSchema = z.object({
  cap: z.union([z.enum(creditAlertKinds.map(({ slug }) => slug)), slugSchema]).optional(),
  level: z
    .string()
    .regex(/^[1-9]\d*$/, 'must be a whole number, at least 1')
    .transform(Number),
});

export function alertPages(context: Context): Router {
  const mayChange = requireRole(...alertRoles);
  const router = pageRouter();

  async function show(req: Request, res: Response, form: FormState): Promise<void> {
    const notices = { added: 'Alert added.', removed: 'Alert removed.' };
    const page = { view: 'metering/usage/alerts', title: 'Alerts', section: 'usage', notices };
    const { orgId, role } = sessionOf(res);
    const alerts = await readAlerts(context, { orgId, role });
    const now = new Date(context.clock.now());
    const { days: burns, lastMonth } = await readPastBurns(context.db.orm, orgId, now);
    const given = textField(readQuery(req), 'cap');
    const { balance } = await readCredits(context.db.orm, { orgId, livemode: true }, now);
    const toLevel = (credits: number) => (credits > 0 && credits < 1e9 ? String(credits) : '');
    const fills = [Math.floor(Number(balance) / 5), Math.ceil(lastMonth), Math.ceil(burns.at(-1)!)];
    const options = [
      ...toNamedOptions(alerts.capped).map((option, i) => {
        const { used, cap } = alerts.capped[i]!;
        return { ...option, label: `Cap of ${option.label}, ${formatShare(used, cap)} used`, fill: '95' };
      }),
      ...creditAlertKinds.map(({ slug, what }, i) => ({
        value: slug,
        label: `Credits ${what}`,
        fill: toLevel(fills[i]!),
      })),
    ];
    const { value: cap, fill: level } = options.find(({ value }) => value === given) ?? options.at(-1)!;
    await renderPage(context, req, res, page, {
      isPage: true,
      form: req.method === 'GET' ? newForm({ cap, level }) : form,
      alerts: {
        ...alerts,
        rows: alerts.rows.map((row) => ({
          ...row,
          daysAbove:
            row.productId === creditsOfDay.productId && burns.filter((burned) => burned > row.level).length,
        })),
        recipients: (await listRecipients(context.db.orm, orgId, alertRoles)).map(({ name }) => name),
        options,
        burns,
        lastMonth,
      },
    });
  }

  router.get('/usage/alerts', (req, res) => show(req, res, newForm()));

  postForm(router, '/usage/alerts', {
    before: [mayChange],
    async act(req, res, fields) {
      const [cap, level] = ['cap', 'level'].map((name) => textField(fields, name)?.trim());
      const input = parseInput(alertSchema, { cap, level });
      await changeAsMember(context, req, res, (tx, orgId, source) => addAlert(tx, orgId, input, source));
      res.redirect(303, `${ALERTS}?done=added`);
    },
    show,
  });

  postForm(router, '/usage/alerts/:id/remove', {
    before: [mayChange],
    async act(req, res) {
      const id = readPathId(req, 'id', 'alert');
      await changeAsMember(context, req, res, (tx, orgId, source) => removeAlert(tx, orgId, id, source));
      res.redirect(303, `${ALERTS}?done=removed`);
    },
    show,
  });

  return router;
}

export async function readAlerts(
  { db, clock, config }: Context,
  { orgId, role }: { orgId: string; role: Role },
) {
  const now = clock.now();
  const rows = await listAlerts(db.orm, orgId, new Date(now));
  const endpoints = (await listAlertEndpoints(db.orm, orgId)).map((row) => toEndpointView(row, now));
  const hasMail = config.mail !== undefined;
  return {
    rows: rows.map((row) => {
      const kind = creditKindOf(row.productId);
      const name = kind
        ? creditLevel(kind, row.level)
        : `${formatDecimal(row.level)}% of the cap of ${row.productName}`;
      return { ...row, name, firedAt: row.firedAt === null ? null : new Date(row.firedAt) };
    }),
    capped: await listCapped(db.orm, orgId, new Date(now)),
    canChange: maySetAlerts(role),
    isManager: isManager(role),
    hasMail,
    endpoints,
    reachesNobody:
      !hasMail && !endpoints.some(({ isEnabled, failingSince }) => isEnabled && failingSince === null),
  };
}
