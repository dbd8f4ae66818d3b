import { UnexpectedAnswerError, type KalshiClient, type Query } from './kalshi-client.js';
import { kalshiMarketsPageSchema } from './kalshi-schema.js';

const PAGE_SIZE = 1000;
const MAX_PAGES = 20;

/** All markets that a filter lets through, page by page, as the venue sends them. */
export async function readMarketPages(
  client: KalshiClient,
  path: '/markets' | '/historical/markets',
  filter: Query,
  signal: AbortSignal,
): Promise<unknown[]> {
  const found: unknown[] = [];
  let cursor = '';
  for (let page = 0; page === 0 || cursor !== ''; page++) {
    if (page === MAX_PAGES) throw new UnexpectedAnswerError(path, `more than ${MAX_PAGES} pages`);
    const query: Query = [...filter, ['limit', PAGE_SIZE]];
    if (cursor !== '') query.push(['cursor', cursor]);
    const answer = await client.get(path, query, kalshiMarketsPageSchema, signal);
    found.push(...answer.markets);
    cursor = answer.cursor;
  }
  return found;
}
