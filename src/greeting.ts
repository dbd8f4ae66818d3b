import { postLine, readEntitlementsLine, readLine, sendEventLine } from './core/pages/curl-line.js';
import type { ExampleOrder } from './markets/orders/first-order.js';
import type { DemoData } from './demo/demo.js';

/**
 * The text shown once the demo has started. Its `curl` lines work as printed.
 * @param markets what can be bought now; undefined: no market is available yet; null: the service has no markets
 */
export function describeDemo(
  demo: DemoData,
  baseUrl: string,
  markets: { order?: ExampleOrder | undefined } | null = {},
): string {
  const order = markets?.order;
  const paperKey = markets ? `\n  paper  ${demo.keys.trading}   (portfolio and orders)` : '';
  const { logins, keys, products, database } = demo;
  const product = products.find(({ kind }) => kind === 'live') ?? products[0]!;
  const event = {
    productSlug: product.slug,
    metric: product.usageMetric,
    quantity: 1,
    idempotencyKey: 'first-event',
  };
  const limited = products.find(({ kind, unitCap }) => kind === 'live' && unitCap === null) ?? product;
  const reservation = {
    productSlug: limited.slug,
    metric: limited.usageMetric,
    quantity: 500,
    idempotencyKey: 'first-reservation',
  };
  const loginTable = table([
    ['e-mail', 'password', 'role', 'Organization'],
    ...logins.map(({ email, password, role, organization }) => [email, password, role, organization]),
  ]);
  const productTable = table([
    ['product', 'metric', 'cap a month', 'entitlement'],
    ...products.map(({ slug, usageMetric, unitCap, kind }) => [slug, usageMetric, unitCap ?? 'none', kind]),
  ]);
  const sections = [
    `Gauge is running at ${baseUrl} with demo data.`,
    `Sign in at ${baseUrl}/login as one of:\n\n${loginTable}`,
    `API keys of ${logins[0]?.organization ?? 'the first Organization'}, and the products that they may report:\n\n  live   ${keys.live}\n  test   ${keys.test}${paperKey}\n\n${productTable}`,
    `Send your first event. A repeat is not counted twice:\n\n  ${sendEventLine(baseUrl, keys.live, event)}`,
    `Reserve units before work whose size is not known yet. They are held for five minutes, or until you settle the reservation:\n\n  ${postLine(`${baseUrl}/api/usage/reservations`, keys.live, reservation)}`,
    `See what remains:\n\n  ${readEntitlementsLine(baseUrl, keys.live)}`,
  ];
  if (order) {
    const trade = postLine(`${baseUrl}/trade`, keys.trading, order, { 'Idempotency-Key': 'first-trade' });
    const portfolio = readLine(`${baseUrl}/portfolio`, keys.trading);
    sections.push(
      `Look at the markets (${baseUrl}/markets; as pages ${baseUrl}/dashboard/markets) and place a paper order:\n\n  ${trade}`,
      `See the portfolio after the order:\n\n  ${portfolio}`,
    );
  }
  if (database === 'embedded') sections.push(embeddedNotice.trimEnd());
  return `\n${sections.join('\n\n')}\n`;
}

export const embeddedNotice = `The embedded database is for trying, and for one process. It does not fsync: what was accepted survives a
killed process, not a power cut. Set DATABASE_URL to run on Postgres.
`;

function table(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')}`.trimEnd())
    .join('\n');
}
