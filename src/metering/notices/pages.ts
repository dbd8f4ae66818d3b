import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { changeAsMember } from '../../accounts/identity/session/authority.js';
import { requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { alertRoles, maySetAlerts, type Role } from '../../accounts/organizations/table.js';
import type { Context } from '../../core/http/context.js';
import { readPathId } from '../../core/http/request.js';
import { parseInput } from '../../core/http/validate.js';
import { newForm, postForm, textField, type FormState } from '../../core/pages/form.js';
import { toNamedOptions } from '../../core/pages/format.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { addAlert, hasAlertEndpoint, listAlerts, listCapped, removeAlert } from './alerts.js';

const ALERTS = '/dashboard/usage/alerts';

/** `cap` is a product, and `level` is in percent of its cap. Without one, it is in credits a day. */
const alertSchema = z.object({
  cap: slugSchema.optional(),
  level: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'must be a whole number from 1 to 999,999,999')
    .transform(Number),
});

export function alertPages(context: Context): Router {
  const mayChange = requireRole(...alertRoles);
  const router = pageRouter();

  async function show(req: Request, res: Response, form: FormState): Promise<void> {
    const notices = { added: 'The alert is added.', removed: 'The alert is removed.' };
    const page = { view: 'metering/usage/alerts', title: 'Alerts', section: 'usage', notices };
    await renderPage(context, req, res, page, {
      isPage: true,
      form,
      alerts: await readAlerts(context, sessionOf(res)),
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

/** For `metering/usage/alerts.ejs`. */
export async function readAlerts(
  { db, clock, config }: Context,
  { orgId, role }: { orgId: string; role: Role },
) {
  const rows = await listAlerts(db.orm, orgId);
  const capped = await listCapped(db.orm, orgId, new Date(clock.now()));
  return {
    rows: rows.map((row) => ({ ...row, firedAt: row.firedAt === null ? null : new Date(row.firedAt) })),
    productOptions: toNamedOptions(capped),
    canChange: maySetAlerts(role),
    hasMail: config.mail !== undefined,
    hasEndpoint: await hasAlertEndpoint(db.orm, orgId),
  };
}
