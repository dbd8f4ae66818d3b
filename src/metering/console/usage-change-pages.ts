import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/layout.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { correctEvents } from '../corrections/corrections.js';
import { correctionFields, toFieldError } from '../reports/correction-pages.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';

/** `why` as in forms that an older version has shown. */
const { reason: why, ...otherFields } = correctionFields;
const correctionSchema = z.object({ idempotencyKey: text(255), why, ...otherFields });

const notices = { corrected: 'The event is corrected.' };

const given = (fields: FormFields, names: string[]) =>
  Object.fromEntries(names.map((name) => [name, textField(fields, name)?.trim()]));

export function customerUsageChangePages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  router.get('/customers/:slug/usage', (req, res) => show(deps)(req, res, newForm()));
  addCorrections(router, deps);
  return router;
}

const base = (slug: string) => `${addressOf(slug)}/usage`;

const show = (deps: ConsoleDeps) => async (req: Request, res: Response, form: FormState) => {
  const customer = await readCustomer(deps, req);
  const page = { view: 'metering/console/usage-changes', tab: 'usage', title: 'Usage', notices };
  // A form submitted twice corrects only once, because both requests carry this key.
  const values = { correctionKey: uuid(), ...form.values };
  await renderCustomer(deps, req, res, page, customer, { form: { ...form, values } });
};

function addCorrections(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/customers/:slug/usage/corrections', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { id: orgId, slug } = await readCustomer(deps, req);
      const { why: reason, ...input } = parseInput(correctionSchema, {
        ...given(fields, ['quantity', 'why', 'correctionKey']),
        idempotencyKey: textField(fields, 'idempotencyKey'),
      });
      const corrections = [{ ...input, reason, quantity: toPlainDecimal(input.quantity, 0) }];
      await changeAsOperator(deps, req, res, (tx, source) =>
        correctEvents(tx, { orgId, livemode: undefined, by: 'operator', corrections }, source),
      ).catch(toFieldError(noEvent()));
      res.redirect(303, toAddress(base(slug), { done: 'corrected' }));
    },
    show: show(deps),
    codes: new Set(['idempotency_conflict']),
  });
}

const noEvent = () => fieldError('idempotencyKey', 'is not the key of an event of this customer');
