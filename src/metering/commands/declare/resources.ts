import { isChat, maskUrl } from '../../../accounts/webhooks/chat.js';
import { mapValues } from '../../../core/collections.js';
import { toPlain } from '../../../core/decimal.js';
import { ExactNumber, exact, toJson } from '../../../core/http/json.js';
import { escapePointer } from '../../../core/http/validate.js';
import { defaultThresholds } from '../../entitlements/limits.js';
import { toStoredFeatures, type FeatureOverrides } from '../../entitlements/features.js';
import { creditPriceJson } from '../../entitlements/price.js';
import { DEFAULT_MAX_QUANTITY } from '../../entitlements/table.js';
import type { Declaration, State } from './file.js';

type Product = State['products'][string];
export type Organization = State['organizations'][string];
type DeclaredPlan = State['plans'][string];
type Entitlement = NonNullable<Organization['entitlements']>[string];
type Webhook = NonNullable<Organization['webhooks']>[number];

export interface Resource {
  /** The same in the file and the service. */
  label: string;
  /** Into the file. */
  pointer: string;
  /** The path is below `/operator`; a new webhook endpoint has the list's. */
  path: string;
  /** For PUT. Absent fields stay unchanged. */
  fields: Record<string, unknown>;
  isKept?: boolean;
  isFixed?: boolean;
  /** For the POST of a new service key, or of a new webhook endpoint, with the full URL of a chat. */
  created?: Record<string, unknown>;
}

/** In an order in which they can be created. */
export function listResources({
  products = {},
  plans = {},
  organizations = {},
  serviceKeys = {},
}: Declaration): Resource[] {
  return [
    ...Object.entries(products).map(([slug, product]) => ({
      label: `product ${slug}`,
      ...samePath(`/products/${slug}`),
      fields: productFields(product),
    })),
    ...Object.entries(plans).map(([slug, plan]) => ({
      label: `plan ${slug}`,
      ...samePath(`/plans/${slug}`),
      fields: planFields(plan),
      isKept: true,
    })),
    ...Object.entries(organizations).flatMap(([slug, organization]) => ofOrganization(slug, organization)),
    ...Object.entries(serviceKeys).map(([name, key]) => ({
      label: `service key ${name}`,
      pointer: `/serviceKeys/${escapePointer(name)}`,
      path: '/service-keys',
      fields: serviceKeyFields(key),
      created: { name, ...serviceKeyFields(key) },
      isKept: true,
      isFixed: true,
    })),
  ];
}

/** The order of scopes makes no difference. */
const serviceKeyFields = ({ livemode, scopes, expiresAt }: State['serviceKeys'][string]) => ({
  livemode,
  scopes: scopes.toSorted(),
  ...(expiresAt === undefined ? {} : { expiresAt: expiresAt && toTime(expiresAt) }),
});

const samePath = (path: string) => ({ pointer: path, path });

function ofOrganization(slug: string, organization: Organization): Resource[] {
  const { entitlements = {}, webhooks = [], plan, ...rest } = organization;
  const path = `/organizations/${slug}`;
  const counts = new Map<string, number>();
  return [
    { label: `organization ${slug}`, ...samePath(path), fields: organizationFields(rest) },
    ...Object.entries(entitlements).map(([product, entitlement]) => ({
      label: `entitlement ${slug}/${product}`,
      ...samePath(`${path}/entitlements/${product}`),
      fields: entitlementFields(entitlement),
    })),
    ...(plan ? [{ label: `plan of ${slug}`, ...samePath(`${path}/plan`), fields: ownPlanFields(plan) }] : []),
    ...webhooks.map((webhook, i) => {
      const webhookFields = toWebhookFields(webhook);
      const { format, url, livemode } = webhookFields;
      const name = `webhook ${slug} ${url} (${format}, ${livemode ? 'live' : 'test'})`;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      const { id } = webhook as { id?: string };
      return {
        label: count === 1 ? name : `${name} #${count}`,
        pointer: `${path}/webhooks/${i}`,
        path: `${path}/webhooks${id === undefined ? '' : `/${id}`}`,
        fields: webhookFields,
        created: { ...webhookFields, url: webhook.url },
      };
    }),
  ];
}

const toNumber = (digits: string | number) => exact(toPlain(String(digits)));

const toCap = (digits: string | null | undefined) => (digits == null ? digits : toNumber(digits));

const organizationFields = ({
  archived = false,
  creditThresholds,
  ...rest
}: Omit<Organization, 'entitlements' | 'webhooks' | 'plan'>) => ({
  ...rest,
  ...(creditThresholds === undefined
    ? {}
    : { creditThresholds: creditThresholds?.map(Number).toSorted((a, b) => b - a) ?? null }),
  archived,
});

/** The order of prices makes no difference. */
const toCredits = ({ price, by, enforcement }: NonNullable<Product['credits']>) => {
  const prices = Object.entries(by?.prices ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return creditPriceJson({
    price: toPlain(price),
    ...(by && {
      by: {
        dimension: by.dimension,
        prices: mapValues(Object.fromEntries(prices), toPlain),
      },
    }),
    enforcement,
  });
};

const productFields = ({
  unitCap,
  maxQuantity = DEFAULT_MAX_QUANTITY,
  archived = false,
  credits,
  features,
  ...rest
}: Product) => ({
  ...rest,
  ...(credits === undefined ? {} : { credits: credits && toCredits(credits) }),
  ...(features === undefined ? {} : { features: toFeatures(features) }),
  unitCap: toCap(unitCap ?? null),
  maxQuantity: toNumber(maxQuantity),
  archived,
});

const toTime = (text: string): string => new Date(text).toISOString();

/** The order of names makes no difference. */
const toFeatures = (features: unknown = {}) => toStoredFeatures(features as FeatureOverrides) ?? {};

const entitlementFields = (entitlement: Entitlement) => ({
  kind: entitlement.kind,
  ...(entitlement.startsAt === undefined ? {} : { startsAt: toTime(entitlement.startsAt) }),
  endsAt: entitlement.endsAt == null ? null : toTime(entitlement.endsAt),
  unitCap: toCap(entitlement.unitCap),
  limits: (entitlement.limits ?? []).map(({ quantity, window, enforcement = 'warn', per }) => ({
    quantity: toNumber(quantity),
    window,
    enforcement,
    ...(per === undefined ? {} : { per }),
  })),
  thresholds: (entitlement.thresholds?.map(Number) ?? [...defaultThresholds]).toSorted((a, b) => a - b),
  features: toFeatures(entitlement.features),
});

const planFields = ({ name, entitlements, grants = [], trial }: DeclaredPlan) => {
  const grantFields = (list: typeof grants) =>
    list.map(({ key, amount, every, priority, productSlugs, rollover, expires }) => ({
      key,
      amount: toNumber(amount),
      every,
      ...(priority === undefined ? {} : { priority: Number(priority) }),
      ...(productSlugs ? { productSlugs } : {}),
      ...(rollover ? { rollover: { percent: Number(rollover.percent), for: rollover.for } } : {}),
      expires,
    }));
  return {
    name,
    entitlements: entitlements
      .toSorted((a, b) => (a.productSlug < b.productSlug ? -1 : 1))
      .map(({ productSlug, kind = 'live', ...entitlement }) => {
        const { endsAt: _endsAt, thresholds, ...fields } = entitlementFields({ kind, ...entitlement });
        return {
          productSlug,
          ...withoutThose({ limits: [], features: {} }, fields),
          ...(entitlement.thresholds === undefined ? {} : { thresholds }),
        };
      }),
    grants: grantFields(grants),
    ...(trial && {
      trial: {
        days: Number(trial.days),
        ...(trial.grants && { grants: grantFields(trial.grants) }),
      },
    }),
  };
};

/** Absent times keep those of the service. */
const ownPlanFields = ({ plan, startsAt, anchor, trial = false }: NonNullable<Organization['plan']>) => ({
  plan,
  ...(startsAt === undefined ? {} : { startsAt: toTime(startsAt) }),
  ...(anchor === undefined ? {} : { anchor: toTime(anchor) }),
  trial,
});

const toWebhookFields = ({ format = 'standard', url, types, livemode, isEnabled = true }: Webhook) => ({
  format,
  url: isChat(format) ? maskUrl(url) : url,
  types: types.toSorted(),
  livemode,
  isEnabled,
});

const withoutThose = (defaults: Record<string, unknown>, fields: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([name, value]) =>
        value !== undefined && !(name in defaults && textOf(value) === textOf(defaults[name])),
    ),
  );

const productDefaults = {
  unitCap: null,
  maxQuantity: DEFAULT_MAX_QUANTITY,
  stripeMeterEvent: null,
  dimensions: [],
  countsSubjects: false,
  credits: null,
  features: {},
  archived: false,
};

const organizationDefaults = { stripeCustomerId: null, creditThresholds: null, archived: false };

const entitlementDefaults = { endsAt: null, limits: [], thresholds: [...defaultThresholds], features: {} };

/** Keeps a null or default field if omitting it would mean "unchanged". */
export function withoutDefaults({ products, plans, organizations, serviceKeys }: State) {
  return {
    ...(isEmpty(serviceKeys) ? {} : { serviceKeys: mapValues(serviceKeys, serviceKeyFields) }),
    ...(isEmpty(plans) ? {} : { plans: mapValues(plans, planFields) }),
    products: mapValues(products, (product) => withoutThose(productDefaults, productFields(product))),
    organizations: mapValues(
      organizations,
      ({ entitlements = {}, webhooks = [], plan, ...organization }) => ({
        ...withoutThose(organizationDefaults, organizationFields(organization)),
        entitlements: mapValues(entitlements, (entitlement) =>
          withoutThose(entitlementDefaults, entitlementFields(entitlement)),
        ),
        ...(plan ? { plan: withoutThose({ trial: false }, ownPlanFields(plan)) } : {}),
        webhooks: webhooks.map(toWebhookFields),
      }),
    ),
  };
}

const isEmpty = (record: object): boolean => Object.keys(record).length === 0;

/** A masked chat URL can only refer to an existing endpoint. */
export const isMasked = ({ fields, created }: Resource): boolean =>
  created?.url !== undefined && fields.format !== 'standard' && created.url === fields.url;

export interface Change {
  kind: 'create' | 'change' | 'delete' | 'archive';
  /** As declared in the file; for a deletion, as stored. */
  resource: Resource;
  /** One line per field, with its old and new value. */
  differences: string[];
  method: 'PUT' | 'POST' | 'DELETE';
  path: string;
  body?: Record<string, unknown>;
}

export interface Plan {
  changes: Change[];
  /** Resources that only the service has, in an order that avoids conflicts. */
  removals: Change[];
  unchanged: number;
}

export function makePlan(wanted: readonly Resource[], current: readonly Resource[]): Plan {
  const left = new Map(current.map((resource) => [resource.label, resource]));
  const changes: Change[] = [];
  let unchanged = 0;
  for (const resource of wanted) {
    const { label, path, fields } = resource;
    const existing = left.get(label);
    left.delete(label);
    const differences = existing ? compare(existing.fields, fields) : [];
    if (existing && differences.length === 0) unchanged++;
    else if (existing)
      changes.push({
        kind: 'change',
        resource,
        differences,
        method: 'PUT',
        path: existing.path,
        body: fields,
      });
    else {
      const method = resource.created ? 'POST' : 'PUT';
      changes.push({ kind: 'create', resource, differences, method, path, body: resource.created ?? fields });
    }
  }
  const isLeft = ({ fields, isKept = false }: Resource) => fields.archived !== true && !isKept;
  const removals = [...left.values()].filter(isLeft).toReversed().map(toRemoval);
  return { changes, removals, unchanged };
}

/** Recorded data refers to products and Organizations, so they are archived. */
function toRemoval(resource: Resource): Change {
  const { path, fields } = resource;
  return 'archived' in fields
    ? { kind: 'archive', resource, differences: [], method: 'PUT', path, body: { ...fields, archived: true } }
    : { kind: 'delete', resource, differences: [], method: 'DELETE', path };
}

const compare = (before: Resource['fields'], after: Resource['fields']): string[] =>
  Object.keys(after)
    .filter((name) => textOf(before[name]) !== textOf(after[name]))
    .map((name) => `${name}: ${textOf(before[name])} → ${textOf(after[name])}`);

function textOf(value: unknown): string {
  if (value === undefined) return 'not set';
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(textOf).join(', ');
  if (typeof value === 'object' && value !== null && !(value instanceof ExactNumber))
    return Object.keys(value).length === 0
      ? 'none'
      : 'quantity' in value
        ? Object.values(value).map(textOf).join(' ')
        : toJson(value);
  return toJson(value);
}

const signs = { create: '+', change: '~', delete: '-', archive: '-' };

export const describeChange = ({ kind, resource, differences }: Change): string =>
  [
    `${signs[kind]} ${resource.label}${kind === 'archive' ? ' (archive)' : ''}`,
    ...differences.map((difference) => `    ${difference}`),
  ].join('\n');
