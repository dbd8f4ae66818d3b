import PQueue from 'p-queue';
import { organizationSchema } from '../../../accounts/identity/operator/schema.js';
import { CommandError } from '../../../commands/kit/command.js';
import { parseNumbersAsText, toJson } from '../../../core/http/json.js';
import { describeProxy } from '../../../core/http/proxy.js';
import { planSchema } from '../../plans/schema.js';
import { productSchema } from '../../entitlements/operator/schema.js';
import { withPlainFeatures, type State } from './file.js';
import type { Organization } from './resources.js';

const PAGE_SIZE = 500;
const TIMEOUT_MS = 60_000;
const CONCURRENT_READS = 8;

/** Also thrown without a usable response. */
export class RefusedError extends Error {
  override name = 'RefusedError';
}

export type OperatorApi = ReturnType<typeof createOperatorApi>;

/** @param url without a trailing slash */
export function createOperatorApi(url: string, token: string) {
  /** Numbers in the response are text. @throws RefusedError */
  async function call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const { status, text } = await send(method, path, body);
    const answer = parseAnswer(text);
    if (status >= 200 && status < 300 && answer) return answer;
    if (status >= 300 && status < 400)
      throw new RefusedError(`${url} redirects elsewhere. Use the address of the service itself.`);
    if (typeof answer?.detail !== 'string')
      throw new RefusedError(`${url} answered ${status}, not as Gauge does.`);
    const places = (answer.errors ?? []) as { pointer: string; detail: string }[];
    throw new RefusedError(
      places.length > 0
        ? places.map(({ pointer, detail }) => `${pointer} ${detail}`).join('; ')
        : answer.detail,
    );
  }

  async function send(method: string, path: string, body: object | undefined) {
    try {
      const response = await fetch(`${url}/operator${path}`, {
        method,
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body ? { body: toJson(body) } : {}),
      });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      const { message, cause } = error as Error;
      const reason = cause instanceof Error ? cause.message : message;
      throw new RefusedError(`${url}${describeProxy(url)} cannot be reached: ${reason}`);
    }
  }

  async function readAll<T>(path: string, name: string): Promise<T[]> {
    const rows: T[] = [];
    for (let cursor: unknown = ''; typeof cursor === 'string';) {
      const answer = await call(
        'GET',
        `${path}?limit=${PAGE_SIZE}${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      if (!Array.isArray(answer[name])) throw new RefusedError(`${url} does not answer as Gauge does.`);
      rows.push(...(answer[name] as T[]));
      cursor = answer.nextCursor;
    }
    return rows;
  }

  return { call, readAll };
}

/** An empty body counts as an empty object. */
function parseAnswer(text: string): Record<string, unknown> | undefined {
  if (text === '') return {};
  try {
    return withPlainFeatures(parseNumbersAsText(text), JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

interface Archivable {
  slug: string;
  archivedAt: string | null;
}

type Product = State['products'][string];
type ServiceKey = State['serviceKeys'][string] & { name: string; state: string };
type Entitlements = NonNullable<Organization['entitlements']>;
type Webhooks = NonNullable<Organization['webhooks']>;

/** @param reads selects parts of each Organization; default: everything */
export async function readState(
  { call, readAll }: OperatorApi,
  reads = (_slug: string, _part: 'entitlements' | 'plan' | 'webhooks') => true,
): Promise<State> {
  const products = await readAll<Product & Archivable>('/products', 'products');
  const plans = await readAll<State['plans'][string] & { slug: string }>('/plans', 'plans');
  const owners = new Map<string, OwnPlan>();
  for (const { slug } of plans)
    for (const row of await readAll<OwnPlan>(`/plans/${slug}/organizations`, 'organizations'))
      owners.set(row.organization, row);
  const organizations = await readAll<Organization & Archivable>('/organizations', 'organizations');
  const keys = await readAll<ServiceKey>('/service-keys', 'serviceKeys');
  const queue = new PQueue({ concurrency: CONCURRENT_READS });
  const rows = await queue.addAll(
    organizations.map((row) => async (): Promise<[string, Organization]> => {
      const { slug, archivedAt } = row;
      const path = `/organizations/${slug}`;
      const own: Organization = { ...pickFields(organizationSchema, row), archived: archivedAt !== null };
      if (reads(slug, 'entitlements'))
        own.entitlements = toEntitlements(await readAll(`${path}/entitlements`, 'entitlements'));
      const plan = owners.get(slug);
      if (plan && reads(slug, 'plan')) own.plan = toOwnPlan(plan);
      if (reads(slug, 'webhooks'))
        own.webhooks = (await call('GET', `${path}/webhooks`)).webhooks as Webhooks;
      return [slug, own];
    }),
  );
  return {
    products: Object.fromEntries(
      products.map((row): [string, Product] => [
        row.slug,
        { ...pickFields(productSchema, row), archived: row.archivedAt !== null },
      ]),
    ),
    plans: Object.fromEntries(plans.map((row) => [row.slug, pickFields(planSchema, row)])),
    organizations: Object.fromEntries(rows),
    // Newest first: of keys with the same name, the newest is known.
    serviceKeys: Object.fromEntries(
      keys
        .filter(({ state }) => state === 'active')
        .toReversed()
        .map(({ name, livemode, scopes, expiresAt }) => [name, { livemode, scopes, expiresAt }]),
    ),
  };
}

/** A new field of the operator API needs no further code here. */
export const pickFields = <T extends object>({ shape }: { shape: object }, row: T): T =>
  Object.fromEntries(Object.entries(row).filter(([name]) => Object.hasOwn(shape, name))) as T;

type OwnPlan = Record<'organization' | 'plan' | 'startsAt' | 'anchor', string> & {
  trialEndsAt: string | null;
};

const toOwnPlan = ({ plan, startsAt, anchor, trialEndsAt }: OwnPlan) => ({
  plan,
  startsAt,
  anchor,
  trial: trialEndsAt !== null,
});

type EntitlementRow = Entitlements[string] & {
  productSlug: string;
  featureOverrides?: Entitlements[string]['features'];
  plan: string | null;
};

/** Those of a plan follow from the Organization's plan. */
const toEntitlements = (rows: EntitlementRow[]): Entitlements =>
  Object.fromEntries(
    rows
      .filter(({ plan }) => plan === null)
      .map(({ productSlug, featureOverrides, ...row }) => [
        productSlug,
        { ...row, features: featureOverrides },
      ]),
  );

/** A flag would expose the token in process listings. */
export function readOperatorToken(value: string | undefined): string {
  const token = value?.trim();
  if (!token)
    throw new CommandError('OPERATOR_TOKEN is not set. Set it to an operator token of the service.');
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new CommandError('OPERATOR_TOKEN contains characters that no operator token has.');
  return token;
}
