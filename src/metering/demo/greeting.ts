import { postLine, readLine } from '../../core/pages/curl-line.js';
import { sendEventLine } from '../../accounts/api-keys/event-line.js';
import { demoOrganizations, type DemoData, type GreetingPart } from '../../demo/demo.js';

export function greet({ keys, products }: DemoData, baseUrl: string): GreetingPart {
  const product = products.find(({ kind }) => kind === 'live') ?? products[0]!;
  const limited = products.find(({ kind, unitCap }) => kind === 'live' && unitCap === null) ?? product;
  const event = {
    productSlug: product.slug,
    metric: product.usageMetric,
    quantity: 1,
    idempotencyKey: 'first-event',
  };
  const reservation = {
    productSlug: limited.slug,
    metric: limited.usageMetric,
    quantity: 500,
    idempotencyKey: 'first-reservation',
  };
  return {
    keys: [
      { name: 'live', secret: keys.live },
      { name: 'test', secret: keys.test },
    ],
    keyTable: {
      title: 'and the products that they may report',
      rows: [
        ['product', 'metric', 'cap a month', 'entitlement'],
        ...products.map(({ slug, usageMetric, unitCap, kind }) => [
          slug,
          usageMetric,
          unitCap ?? 'none',
          kind,
        ]),
      ],
    },
    steps: [
      {
        text: 'Send your first event. A repeat is not counted twice',
        command: sendEventLine(baseUrl, keys.live, event),
      },
      {
        text: 'Reserve units before work whose size is not known yet. They are held for five minutes, or until you settle the reservation',
        command: postLine(`${baseUrl}/api/usage/reservations`, keys.live, reservation),
      },
      { text: 'See what remains', command: readLine(`${baseUrl}/api/entitlements`, keys.live) },
      ...(keys.service === undefined
        ? []
        : [
            {
              text: 'With a service key, your own programs do this for any Organization',
              command: readLine(
                `${baseUrl}/service/organizations/${demoOrganizations[1].slug}/entitlements`,
                keys.service,
              ),
            },
          ]),
    ],
  };
}
