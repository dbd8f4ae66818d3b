import { z } from 'zod';
import { ORGANIZATION_ROOT, type RouteDescription } from '../../core/reference/define-route.js';

const slug = z.string().meta({ description: 'The slug of the Organization.' });

export const ofOrganization = {
  tag: 'On behalf of customers',
  credential: 'serviceKey',
  params: z.object({ slug }),
  errors: ['not_found'],
} satisfies Partial<RouteDescription>;

/** The same route at an address that names the Organization, for a service key. */
export const forOrganization = <R extends RouteDescription>(route: R): R => ({
  ...route,
  path: route.path.replace('/api/', ORGANIZATION_ROOT),
  operationId: `${route.operationId}For`,
  sameAs: route.operationId,
  ...ofOrganization,
  params: ofOrganization.params.extend(route.params?.shape ?? {}),
  errors: [...(route.errors ?? []), ...ofOrganization.errors],
});
