import { z } from 'zod';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { fillInSlug, slugSchema } from '../../accounts/identity/operator/schema.js';
import { putOrganization } from '../../accounts/identity/organizations/organizations.js';
import { findOrganization } from '../../accounts/identity/organizations/queries.js';
import { findDifference, type Source } from '../../accounts/identity/source.js';
import { marketAccesses, type MarketAccess } from '../../accounts/organizations/table.js';
import type { Tx } from '../../core/db/client.js';
import { toPlainDecimal } from '../../core/decimal.js';
import type { Context } from '../../core/http/context.js';
import { decimalField, parseInput, text } from '../../core/http/validate.js';
import { fieldError } from '../../core/pages/form.js';
import type { SetUpStep } from '../../set-up/set-up.js';
import { putGrant } from '../entitlements/grants.js';
import { putProduct } from '../entitlements/products.js';
import { findGrant, lockProduct, type Product } from '../entitlements/queries.js';
import { DEFAULT_MAX_QUANTITY, entitlements } from '../entitlements/table.js';

const firstSchema = z.strictObject({
  productSlug: slugSchema,
  productName: text(200),
  usageMetric: text(255),
  unitCap: decimalField.optional(),
  orgSlug: slugSchema,
  orgName: text(200),
  marketAccess: z.enum(marketAccesses, 'must be one of the options').optional(),
});

export const createSetUpStep = ({
  hasMarkets,
  firstMarketAccess,
}: Pick<Context['config'], 'hasMarkets' | 'firstMarketAccess'>): SetUpStep => ({
  path: 'product',
  title: 'first product',
  view: 'metering/set-up/product',
  data: { hasMarkets },
  given: { marketAccess: firstMarketAccess },
  async isDone(orm) {
    const [granted] = await orm.select({ orgId: entitlements.orgId }).from(entitlements).limit(1);
    return granted !== undefined;
  },
  read(fields) {
    fillInSlug(fields, 'productSlug', 'productName');
    fillInSlug(fields, 'orgSlug', 'orgName');
    const { marketAccess = firstMarketAccess, ...first } = parseInput(firstSchema, filledIn(fields));
    return (tx, source) => declareFirst(tx, { ...first, marketAccess }, source);
  },
});

/** Repeating this changes nothing: existing objects with the same names keep their values. */
async function declareFirst(
  tx: Tx,
  first: z.output<typeof firstSchema> & { marketAccess: MarketAccess },
  source: Source,
): Promise<void> {
  const { productSlug, productName: name, usageMetric, unitCap, orgSlug, orgName, marketAccess } = first;
  const cap = unitCap === undefined ? null : toPlainDecimal(unitCap, 0);
  const product = { name, usageMetric, unitCap: cap, maxQuantity: DEFAULT_MAX_QUANTITY };
  const earlier = await lockProduct(tx, productSlug);
  if (earlier && findDifference(toFields(earlier), toFields(product)))
    throw fieldError(
      'productSlug',
      'is taken by another product. Enter that product exactly as it is, or choose another slug',
    );
  const customer = await findOrganization(tx, { slug: orgSlug });
  if (customer && customer.name !== orgName)
    throw fieldError('orgSlug', 'is taken by another Organization. Enter its name, or choose another slug');
  if (!earlier) await putProduct(tx, productSlug, product, source);
  if (!customer) await putOrganization(tx, orgSlug, { name: orgName, marketAccess }, source);
  if (earlier && customer && (await findGrant(tx, customer.id, earlier.id))) return;
  const grant = { kind: 'live', startsAt: undefined, endsAt: null, unitCap: undefined } as const;
  await putGrant(tx, orgSlug, productSlug, grant, source);
}

const toFields = ({ name, usageMetric, unitCap }: Pick<Product, 'name' | 'usageMetric' | 'unitCap'>) => ({
  name,
  usageMetric,
  unitCap,
});
