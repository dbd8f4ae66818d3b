import { z } from 'zod';
import { NWS_USER_AGENT } from '../forecast/nws.js';
import { readJson } from '../forecast/read-json.js';
import type { Station } from '../market/stations.js';
import { readClimateProduct, type ClimateProduct } from './product.js';

const listSchema = z.looseObject({
  '@graph': z
    .array(
      z.looseObject({
        id: z.string().regex(/^[\w-]{1,100}$/),
        issuanceTime: z.iso.datetime({ offset: true }),
        productCode: z.literal('CLI'),
      }),
    )
    .max(1_000),
});

const productSchema = z.looseObject({ productText: z.string().max(100_000) });

export interface ListedProduct {
  id: string;
  issuedAt: Date;
}

export interface ClimateReader {
  /** The reports of a station that the weather service still has, about a week of them, oldest first. */
  list(station: Station, signal: AbortSignal): Promise<ListedProduct[]>;
  /** One of them; undefined for a text that cannot be read as a report of this station. */
  read(station: Station, product: ListedProduct, signal: AbortSignal): Promise<ClimateProduct | undefined>;
}

/** Both reject as `readJson` does. */
export function createClimateReader({ baseUrl }: { baseUrl: string }): ClimateReader {
  const headers = { 'user-agent': NWS_USER_AGENT, accept: 'application/ld+json' };
  return {
    async list({ report }, signal) {
      const url = `${baseUrl}/products/types/CLI/locations/${report.slice(3)}`;
      const { '@graph': listed } = await readJson({ url, headers, schema: listSchema, signal });
      return listed
        .map(({ id, issuanceTime }) => ({ id, issuedAt: new Date(issuanceTime) }))
        .sort((a, b) => a.issuedAt.getTime() - b.issuedAt.getTime());
    },
    async read(station, { id, issuedAt }, signal) {
      const url = `${baseUrl}/products/${id}`;
      const { productText } = await readJson({ url, headers, schema: productSchema, signal });
      return readClimateProduct(productText, station, issuedAt);
    },
  };
}
