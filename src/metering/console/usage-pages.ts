import type { Router } from 'express';
import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { cutPage, toCursor } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, type FormFields, parseQueryForm, readQuery, tryQuery } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { monthOf, monthRange } from '../../core/time.js';
import { findProduct } from '../entitlements/queries.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { findOrganization } from '../../accounts/identity/organizations/queries.js';
import type { Context } from '../../core/http/context.js';
import { granularities, listCustomerUsage } from '../reports/operator/queries.js';
import {
  keyOf,
  positionSchema,
  present,
  readSteps,
  toPosition,
  toUsageCsv,
} from '../reports/operator/steps.js';
import { mode } from '../events/page-schema.js';
import { addressOf, CONSOLE, decodeKey, PAGE_SIZE, type ConsoleDeps } from '../../console/page.js';

const USAGE = `${CONSOLE}/usage`;

const day = z.iso
  .date('must be a date like 2026-01-31')
  .refine((date) => date >= '1970', 'must be between the years 1970 and 9999');

const querySchema = z.object({
  from: day,
  to: day,
  granularity: z.enum(granularities, 'must be one of the options'),
  mode,
  organization: slugSchema.optional(),
  product: slugSchema.optional(),
  cursor: z.string().optional(),
});

export function customerUsagePages({ log, ...deps }: ConsoleDeps & Pick<Context, 'log'>): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  /** Defaults to this month by customer and product. */
  const readRequest = async (query: FormFields) => {
    const { cursor, ...given } = parseQueryForm(querySchema, { ...thisMonth(clock.now()), ...query });
    const { granularity } = given;
    const days = { from: new Date(given.from), to: new Date(given.to) };
    const steps = readSteps({ ...days, granularity, livemode: given.mode === 'live' }, fieldError);
    return { given, cursor, range: { ...steps, ...(await findFilters(db.orm, given)) } };
  };

  router.get('/usage', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { given, cursor, range } = await readRequest(query);
      const key = decodeKey(cursor, positionSchema);
      const after = key === undefined ? undefined : toPosition(key);
      const found = await listCustomerUsage(db, { ...range, after, limit: PAGE_SIZE + 1 });
      const { page: rows, nextCursor } = cutPage(found, PAGE_SIZE, (last) => toCursor(keyOf(last)));
      return {
        rows: rows.map((row) => ({ ...present(row, range), href: addressOf(row.organization) })),
        range,
        csvHref: toAddress(`${USAGE}.csv`, given),
        pager: toPager(USAGE, given, { cursor, nextCursor }),
      };
    });
    const page = { view: 'metering/console/usage', title: 'Usage', section: 'usage' };
    const values = { ...thisMonth(clock.now()), ...form.values };
    await renderPage(deps, req, res, page, { form: { ...form, values }, result });
  });

  router.get('/usage.csv', async (req, res) => {
    const { range } = await readRequest(readQuery(req));
    await sendCsv(log, req, res, toUsageCsv(db, range));
  });

  return router;
}

function thisMonth(nowMs: number) {
  const { start, end } = monthRange(monthOf(nowMs));
  return { from: start.slice(0, 10), to: end.slice(0, 10), granularity: 'total', mode: 'live' };
}

/** @throws AppError invalid_request for an unknown slug */
async function findFilters(
  orm: Orm,
  { organization, product }: { organization?: string | undefined; product?: string | undefined },
) {
  const customer =
    organization === undefined ? undefined : await findOrganization(orm, { slug: organization });
  if (organization !== undefined && !customer)
    throw fieldError('organization', 'does not belong to a customer');
  const found = product === undefined ? undefined : await findProduct(orm, product);
  if (product !== undefined && !found) throw fieldError('product', 'does not belong to a product');
  return { orgId: customer?.id, productId: found?.id };
}
