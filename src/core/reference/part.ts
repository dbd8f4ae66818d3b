import { commonStatuses } from '../errors.js';
import type { Example, ExampleRequest, RouteDescription, RouteProse } from './define-route.js';
import type { Reference, ReferencePart, Refusal } from './described.js';
import { readGuides } from './error-guide.js';
import { describeRoute } from './problem-examples.js';
import type { Prose } from './prose.js';

const commonPart: ReferencePart = {
  routes: [],
  statuses: commonStatuses,
  errors: new URL('errors.yaml', import.meta.url),
  circumstances: {
    limit_used_up: 'the limit is used up',
    database_unreachable: 'the database cannot be reached',
    clock_off: "the clock of the instance is an hour behind the database's",
    defect: 'the service has an internal error',
    draining: 'the service is shutting down',
    metrics_protected: 'METRICS_TOKEN is set',
  },
  limits: {
    // Routes without a per-key limit still limit calls with invalid keys.
    'bad-keys': {
      summary: 'After 300 calls with bad keys from an address in a minute',
      detail: 'Too many calls from your address used an API key that does not exist or is no longer valid.',
      calls: 300,
    },
    service: {
      summary: 'Too many calls with the key in a minute',
      detail: 'This service key can make 6000 calls a minute.',
    },
    documents: {
      summary: 'Too many requests for documents from an address in a minute',
      detail: 'Your address can make 300 requests for documents a minute.',
    },
  },
};

export const callsPerKey = (calls: string): Refusal => ({
  summary: 'Too many calls with the key in a minute',
  detail: `This key can make ${calls} calls a minute.`,
});

/** Groups, and the routes within a group, keep the order of the parts. */
export function joinReference(
  { introduction, webhooks }: Pick<Reference, 'introduction' | 'webhooks'>,
  ownParts: readonly ReferencePart[],
  prose: Prose,
): Reference {
  const parts = [commonPart, ...ownParts];
  const joined = {
    introduction,
    webhooks,
    tags: join(parts, 'tags'),
    statuses: join(parts, 'statuses'),
    errors: readGuides(parts.flatMap(({ errors = [] }) => errors)),
    credentials: join(parts, 'credentials'),
    circumstances: join(parts, 'circumstances'),
    limits: join(parts, 'limits'),
    scopes: join(parts, 'scopes'),
  } as Omit<Reference, 'routes'>;
  const order = Object.keys(joined.tags);
  const routes = parts
    .flatMap((part) => part.routes)
    .toSorted((a, b) => order.indexOf(a.tag) - order.indexOf(b.tag));
  return {
    ...joined,
    routes: routes.map((route) => describeRoute(route, proseOf(route, prose), joined)),
  };
}

function proseOf({ sameAs, operationId }: RouteDescription, prose: Prose): RouteProse {
  const own = prose[sameAs ?? operationId];
  if (!own) throw new Error(`No reference.yaml describes ${operationId}.`);
  return sameAs === undefined ? own : forOrganization(sameAs, own);
}

/** Examples of other keys and of other states of the service are only those of the original. */
function forOrganization(operationId: string, { summary, description, examples, python }: RouteProse) {
  const at = ({ credential: _credential, ...request }: ExampleRequest): ExampleRequest => ({
    ...request,
    params: { slug: 'acme', ...request.params },
  });
  const isLive = ({ credential }: ExampleRequest) =>
    credential === undefined || ['readerKey', 'correctorKey'].includes(credential);
  const isShared = ({ request, before = [], circumstance }: Example) =>
    circumstance === undefined && [request, ...before].every(isLive);
  return {
    summary: `${summary}, for an Organization`,
    description: `As \`${operationId}\`, for the Organization in the address.\n\n${description}`,
    examples: examples
      .filter((example, i) => i === 0 || isShared(example))
      .map(({ before, request, ...example }) => ({
        ...example,
        request: at(request),
        ...(before ? { before: before.map(at) } : {}),
      })),
    ...(python && { python }),
  };
}

const join = (parts: readonly ReferencePart[], name: keyof ReferencePart): object =>
  Object.assign({}, ...parts.map((part) => part[name]));
