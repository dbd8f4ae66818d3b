import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { readPathId } from '../../core/http/request.js';
import { parseInput, text } from '../../core/http/validate.js';
import { cutPage, toCursor } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  newForm,
  textField,
  type FormFields,
  type FormState,
  parseQueryForm,
  readQuery,
} from '../../core/pages/form.js';
import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { pageRouter } from '../../core/pages/layout.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { lockOrganizationId } from '../../accounts/organizations/table.js';
import {
  beginStep,
  openBackfill,
  readBackfill,
  readBackfills,
  sumOf,
  type Step,
} from '../backfills/backfills.js';
import type { Backfill } from '../backfills/queries.js';
import { backfillCreditsSchema } from '../backfills/schema.js';
import { correctEvents } from '../corrections/corrections.js';
import { mode } from '../events/page-schema.js';
import { correctionFields, toFieldError } from '../reports/correction-pages.js';
import {
  addressOf,
  decodeKey,
  PAGE_SIZE,
  readCustomer,
  renderCustomer,
  type ConsoleDeps,
} from '../../console/page.js';

/** The page's other form also has a `reason`. */
const { reason: why, ...otherFields } = correctionFields;
const correctionSchema = z.object({ idempotencyKey: text(255), why, ...otherFields });

const day = z.iso.date('must be a date like 2026-01-31');
const backfillSchema = z
  .object({ reason: text(200), from: day, to: day, mode, credits: backfillCreditsSchema })
  .refine(({ from, to }) => to > from, { path: ['to'], error: 'must be later than the first day' });

const notices = {
  corrected: 'The event is corrected.',
  opened: 'Backfill opened. Now stage its events.',
  apply: 'The backfill is being applied in the background.',
  revert: 'The backfill is being reverted in the background.',
  discard: 'The backfill is being discarded in the background.',
};

const given = (fields: FormFields, names: string[]) =>
  Object.fromEntries(names.map((name) => [name, textField(fields, name)?.trim()]));

export function customerUsageChangePages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  router.get('/customers/:slug/usage', (req, res) => show(deps, 'correction')(req, res, newForm()));
  addCorrections(router, deps);
  addBackfills(router, deps);
  return router;
}

const base = (slug: string) => `${addressOf(slug)}/usage`;

const show =
  (deps: ConsoleDeps, which: 'correction' | 'backfill') =>
  async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const { cursor } = parseQueryForm(z.object({ cursor: z.string().optional() }), readQuery(req));
    const after = decodeKey(cursor, z.uuid());
    const found = await readBackfills(deps.db.orm, customer.id, { after, limit: PAGE_SIZE });
    const { page: rows, nextCursor } = cutPage(found, PAGE_SIZE, (last) => toCursor(last.id));
    const page = { view: 'metering/console/usage-changes', tab: 'usage', title: 'Usage', notices };
    const formOf = (name: typeof which) => (name === which ? form : newForm());
    const correction = formOf('correction');
    await renderCustomer(deps, req, res, page, customer, {
      // A form submitted twice corrects once: both requests carry this key.
      correctionForm: { ...correction, values: { correctionKey: uuid(), ...correction.values } },
      backfillForm: formOf('backfill'),
      backfills: rows.map((row) => toView(row, row.staged)),
      pager: toPager(base(customer.slug), {}, { cursor, nextCursor }),
    });
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
    show: show(deps, 'correction'),
    codes: new Set(['idempotency_conflict']),
  });
}

function addBackfills(router: Router, deps: ConsoleDeps): void {
  const confirmed = requireConfirmation(deps.clock);

  addForm(router, '/customers/:slug/usage/backfills', {
    before: [confirmed],
    async act(req, res, fields) {
      const { id: orgId, slug } = await readCustomer(deps, req);
      const input = parseInput(backfillSchema, given(fields, ['reason', 'from', 'to', 'mode', 'credits']));
      const [from, to] = [new Date(input.from), new Date(input.to)];
      const [livemode, burnsCredits] = [input.mode === 'live', input.credits === 'burn'];
      const backfill = { reason: input.reason, from, to, livemode, burnsCredits };
      const { id } = await changeAsOperator(deps, req, res, (tx, source) =>
        openBackfill(tx, orgId, backfill, source),
      );
      res.redirect(303, toAddress(`${base(slug)}/backfills/${id}`, { done: 'opened' }));
    },
    show: show(deps, 'backfill'),
  });

  const showOne = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const { backfill, changes, mismatches } = await readBackfill(deps.db.orm, customer.id, readId(req));
    const page = { view: 'metering/console/backfill', tab: 'usage', title: 'Backfill', notices };
    await renderCustomer(deps, req, res, page, customer, {
      form,
      backfill: toView(backfill, sumOf(changes, 'events')),
      changes,
      mismatches,
      steps: stepsOf[backfill.state] ?? [],
    });
  };

  router.get('/customers/:slug/usage/backfills/:id', (req, res) => showOne(req, res, newForm()));

  for (const step of ['apply', 'revert', 'discard'] as const)
    addForm(router, `/customers/:slug/usage/backfills/:id/${step}`, {
      before: [confirmed],
      async act(req, res) {
        const { id: orgId, slug } = await readCustomer(deps, req);
        const id = readId(req);
        await changeAsOperator(deps, req, res, async (tx, source) => {
          await lockOrganizationId(tx, orgId);
          return beginStep(tx, orgId, id, step, source);
        });
        res.redirect(303, toAddress(`${base(slug)}/backfills/${id}`, { done: step }));
      },
      show: showOne,
      codes: new Set(['backfill_state']),
    });
}

const readId = (req: Request): string => readPathId(req, 'id', 'backfill');

const stepsOf: Partial<Record<Backfill['state'], { step: Step; label: string; isDangerous: boolean }[]>> = {
  open: [
    { step: 'apply', label: 'Apply', isDangerous: false },
    { step: 'discard', label: 'Discard', isDangerous: true },
  ],
  applied: [{ step: 'revert', label: 'Revert', isDangerous: true }],
};

function toView(
  { id, state, reason, fromTime, toTime, livemode, burnsCredits, createdAt, changedAt, done }: Backfill,
  staged: number,
) {
  const isRunning = state.endsWith('ing');
  return {
    id,
    state: state.charAt(0).toUpperCase() + state.slice(1),
    isRunning,
    isOpen: state === 'open',
    reason,
    from: fromTime,
    to: toTime,
    mode: livemode ? 'Live' : 'Test',
    burnsCredits,
    createdAt,
    changedAt,
    staged: formatCount(staged, 'event'),
    share: isRunning && staged > 0 ? done / staged : null,
    progress: `${formatDecimal(done)} of ${formatDecimal(staged)}`,
  };
}

const noEvent = () => fieldError('idempotencyKey', 'is not the key of an event of this customer');
