import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import * as venueSchemas from '../../../src/markets/live/wire.js';
import { kalshiTradesPageSchema, kalshiTradeSchema } from '../../../src/markets/venue/kalshi-prints.js';
import * as kalshiSchemas from '../../../src/markets/venue/kalshi-schema.js';
import { marketStatuses } from '../../../src/markets/market/market.js';

/** The venue's published OpenAPI document, if it is present next to the project. */
const file = new URL('../../../../shared/reference/kalshi-openapi-3.32.yaml', import.meta.url);

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
}

const document = existsSync(file)
  ? (parse(readFileSync(file, 'utf8')) as { components: { schemas: Record<string, Schema> } })
  : { components: { schemas: {} } };

function resolve(schema: Schema): Schema {
  const target = schema.$ref ?? schema.allOf?.[0]?.$ref;
  return target === undefined ? schema : resolve(document.components.schemas[target.split('/').at(-1)!]!);
}

/** Lists the fields we read that the document lacks, types differently or does not guarantee. */
function differences(ours: Schema, theirs: Schema, place: string): string[] {
  const documented = resolve(theirs);
  const read = ours.anyOf ? ours.anyOf.find(({ type }) => type !== 'null')! : ours;
  const [asRead, asDocumented] = [typeOf(read), typeOf(documented)];
  if (asRead !== undefined && asDocumented !== undefined && asRead !== asDocumented)
    return [`${place} is read as ${asRead}, and is ${asDocumented}`];
  const inside = Object.entries(read.properties ?? {}).flatMap(([name, property]) => {
    const found = documented.properties?.[name];
    if (!found) return [`${place}.${name} is not documented`];
    const isNeeded = read.required?.includes(name) ?? false;
    const isPromised = documented.required?.includes(name) ?? false;
    const missing = isNeeded && !isPromised ? [`${place}.${name} is needed, and may be missing`] : [];
    return [...missing, ...differences(property, found, `${place}.${name}`)];
  });
  const items = read.items && documented.items ? differences(read.items, documented.items, `${place}[]`) : [];
  return [...inside, ...items];
}

/** Returns a schema's type, ignoring null and treating all numbers alike. */
const typeOf = ({ type }: Schema): string | undefined =>
  [type]
    .flat()
    .find((name) => name !== 'null')
    ?.replace('integer', 'number');

function component(name: string): Schema {
  const found = document.components.schemas[name];
  if (!found) throw new Error(`the venue does not document ${name}`);
  return found;
}
const toJson = (schema: z.ZodType): Schema =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema;

describe.skipIf(!existsSync(file))('the venue’s published document', () => {
  it.each<[string, z.ZodType]>([
    ['Market', kalshiSchemas.kalshiMarketSchema],
    ['GetMarketsResponse', kalshiSchemas.kalshiMarketsPageSchema],
    ['GetMarketOrderbookResponse', kalshiSchemas.kalshiOrderBookSchema],
    ['GetMarketOrderbooksResponse', kalshiSchemas.kalshiOrderBooksSchema],
    ['Trade', kalshiTradeSchema],
    ['GetTradesResponse', kalshiTradesPageSchema],
    ['ExchangeStatus', kalshiSchemas.kalshiExchangeStatusSchema],
    ['Series', kalshiSchemas.kalshiSeriesSchema],
    ['GetSeriesListResponse', kalshiSchemas.kalshiSeriesListSchema],
    ['GetHistoricalCutoffResponse', kalshiSchemas.kalshiCutoffSchema],
    ['CreateOrderV2Response', venueSchemas.createdOrderSchema],
    ['Order', venueSchemas.venueOrderSchema],
    ['Fill', venueSchemas.venueFillSchema],
    ['MarketPosition', venueSchemas.venuePositionSchema],
    ['Settlement', venueSchemas.venueSettlementSchema],
    ['GetOrdersResponse', venueSchemas.ordersPageSchema],
    ['GetFillsResponse', venueSchemas.fillsPageSchema],
    ['GetPositionsResponse', venueSchemas.positionsPageSchema],
    ['GetSettlementsResponse', venueSchemas.settlementsPageSchema],
    ['GetBalanceResponse', venueSchemas.balanceSchema],
  ])('has every field that is read of %s', (name, schema) => {
    expect(differences(toJson(schema), component(name), name)).toEqual([]);
  });

  it('has exactly the states, results and fee types known here', () => {
    expect(resolve(component('Market').properties!.status!).enum).toEqual([...marketStatuses]);
    expect(resolve(component('Market').properties!.result!).enum).toEqual(['yes', 'no', 'scalar', '']);
    expect(resolve(component('Order').properties!.status!).enum).toEqual(['resting', 'canceled', 'executed']);
    expect(resolve(component('Series').properties!.fee_type!).enum).toEqual([
      'quadratic',
      'quadratic_with_maker_fees',
      'quadratic_with_combo_maker_fees',
      'flat',
    ]);
  });
});
