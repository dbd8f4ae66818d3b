import { z } from 'zod';
import { flagInput, namedInput, namedObject, timeField } from '../../core/http/fields.js';
import { exact, parseNumbersAsText } from '../../core/http/json.js';
import { nameField, timeInput } from '../../core/http/validate.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { grantSchema } from '../credit-grants/schema.js';
import { toBoundedDecimal } from '../entitlements/exact-number.js';
import { toStoredFeatures, type Features } from '../entitlements/features.js';
import { declaredLimitJson } from '../entitlements/limits.js';
import { entitlementSchema } from '../entitlements/operator/schema.js';
import { toPrice } from '../entitlements/price.js';
import { entitlementKinds } from '../entitlements/table.js';

export const MAX_ENTITLEMENTS = 50;
export const MAX_GRANTS = 8;
export const MAX_MOVED = 500;

/** 50 entitlements with 4 KB of features each, even if every character is escaped. */
export const MAX_PLAN_BYTES = 1024 * 1024;

export const periods = ['month', 'week', 'day'] as const;

const hasNoRepeats = (names: string[]): boolean => new Set(names).size === names.length;

const { amount, priority, productSlugs, rollover } = grantSchema.shape;

const planGrantSchema = z
  .strictObject({
    key: z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'must be a name of 1 to 64 of a-z, 0-9, -, _ and ., like credits')
      .describe('Names the grant within the plan. A period has one grant of this name.'),
    amount,
    every: z.enum(periods).describe('The length of a period, counted from the `anchor`.'),
    priority,
    productSlugs,
    rollover,
    expires: z
      .enum(['period'])
      .nullable()
      .describe('`period`: at the end of the period; `null`: never. The end is rounded up to a whole hour.'),
  })
  .refine(({ rollover: rolled, expires }) => rolled == null || expires !== null, {
    path: ['rollover'],
    error: 'needs expires: period',
  })
  .meta({ id: 'PlanGrant' });

const grantsSchema = z
  .array(planGrantSchema)
  .max(MAX_GRANTS, `must have at most ${MAX_GRANTS} grants`)
  .refine((grants) => hasNoRepeats(grants.map(({ key }) => key)), 'must not name a key twice');

const planEntitlementSchema = entitlementSchema
  .omit({ startsAt: true, endsAt: true })
  .extend({
    productSlug: slugSchema.describe('The slug of the product.'),
    kind: z.enum(entitlementKinds).default('live').describe('Default: `live`.'),
  })
  .meta({ id: 'PlanEntitlement' });

export const planSchema = namedInput('PlanInput', {
  name: nameField.describe('For people.'),
  entitlements: z
    .array(planEntitlementSchema)
    .max(MAX_ENTITLEMENTS, `must have at most ${MAX_ENTITLEMENTS} entitlements`)
    .refine(
      (entitlements) => hasNoRepeats(entitlements.map(({ productSlug }) => productSlug)),
      'must not name a product twice',
    ),
  grants: grantsSchema.default([]).describe('Credits for each period. Default: none.'),
  trial: z
    .strictObject({
      days: z.int().min(1).max(366).describe('1 to 366.'),
      grants: grantsSchema
        .optional()
        .describe('Credits for periods that begin during the trial. Default: those of the plan.'),
    })
    .optional()
    .describe('Offers a trial. Default: none.'),
});

export const organizationPlanSchema = namedInput('OrganizationPlanInput', {
  plan: slugSchema.describe('The slug of the plan.'),
  startsAt: timeInput
    .optional()
    .describe('When its entitlements begin. Default: now, or unchanged while on a plan.'),
  anchor: timeInput
    .optional()
    .describe(
      'The instant from which periods are counted; the last day of a month that does not have its day. Default: the start, or unchanged while on a plan.',
    ),
  trial: z
    .boolean()
    .default(false)
    .describe(
      "Begins with the plan's trial, once per Organization and plan. Default: false, which confirms a trial.",
    ),
  voidGrants: z
    .boolean()
    .default(false)
    .describe('Whether credits that the previous plan granted for the running periods are voided.'),
});

export const replaceSchema = z.strictObject({
  replace: flagInput
    .default('false')
    .describe('Whether the plan also takes over entitlements that were set by hand.'),
});

export const moveSchema = namedInput('PlanMoveInput', {
  from: z.int().min(1).optional().describe('Only Organizations on this version. Default: all.'),
  organizations: z
    .array(slugSchema)
    .min(1)
    .max(MAX_MOVED, `must have at most ${MAX_MOVED} Organizations`)
    .optional()
    .describe('Only these Organizations. Default: all.'),
});

const versionField = z.int().min(1);

export const movedSchema = namedObject('PlanMove', {
  version: versionField.describe('The newest version.'),
  moved: z.int().min(0).describe('Organizations that this call moved.'),
  remaining: z.int().min(0).describe('Organizations left: call again if it is above 0.'),
});

export const planAnswerSchema = namedObject('Plan', {
  slug: z.string(),
  name: z.string(),
  version: versionField.describe('The version that is shown; by default the newest.'),
  entitlements: z.array(planEntitlementSchema),
  grants: z.array(planGrantSchema),
  trial: planSchema.shape.trial,
  versions: z
    .array(
      namedObject('PlanVersion', {
        version: versionField,
        organizations: z.int().min(0).describe('Organizations that are on it.'),
        createdAt: timeField('When it was declared.'),
      }),
    )
    .describe('The newest, and all others that an Organization is on, newest first.'),
  createdAt: timeField('When the plan was created.'),
  updatedAt: timeField('When it was last changed.'),
});

export const planStates = ['scheduled', 'trial', 'trial_over', 'active'] as const;

export const organizationPlanAnswerSchema = namedObject('OrganizationPlan', {
  organization: z.string(),
  plan: z.string(),
  version: versionField,
  state: z
    .enum(planStates)
    .describe(
      '`scheduled`: it begins later. `trial_over`: the trial has ended, and its entitlements are read-only until it is confirmed.',
    ),
  startsAt: timeField('When it begins.'),
  anchor: timeField('The instant from which periods are counted.'),
  trialEndsAt: timeField('The end of a trial that is not confirmed; `null` without one.').nullable(),
  setByHand: z
    .array(z.string())
    .optional()
    .describe('Products of the plan whose entitlement was set by hand. Not in lists.'),
  createdAt: timeField('When the Organization first got a plan.'),
  updatedAt: timeField('When it was last changed.'),
});

/** Decimals are text, which keeps all their digits, and fields that mean the same as an absent one are absent. */
type Stored<Value> = Value extends readonly (infer One)[]
  ? Stored<One>[]
  : Value extends object
    ? { [Name in keyof Value]: StoredField<Name, Value[Name]> }
    : Value;
type StoredField<Name, Value> = Name extends 'features' | 'expires'
  ? Value
  : Name extends 'unitCap' | 'quantity' | 'amount'
    ? string | Extract<Value, null>
    : Stored<NonNullable<Value>>;

export type Definition = Stored<Omit<z.output<typeof planSchema>, 'name'>>;
export type PlanGrant = Definition['grants'][number];

/** Decimals, whose digits are kept as text. A feature may have one of these names. */
const decimals: Record<string, (digits: string, place: string) => string> = {
  unitCap: toBoundedDecimal,
  quantity: toBoundedDecimal,
  amount: toPrice,
};

/** @param text the body, which has all digits of its numbers */
export const readDefinition = (sent: Omit<z.output<typeof planSchema>, 'name'>, text: string): Definition =>
  toStored(sent, parseNumbersAsText(text), '') as Definition;

/** Leaves out what means the same as an absent field. @param texts the value with its numbers as text */
function toStored(value: unknown, texts: unknown, place: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const textOf = (name: string | number) => (texts as Record<string, unknown> | undefined)?.[name];
  if (Array.isArray(value)) return value.map((one, i) => toStored(one, textOf(i), `${place}${i}/`));
  const fields = Object.entries(value).map(([name, own]: [string, unknown]): [string, unknown] => {
    if (name === 'features') return [name, toStoredFeatures(own as Features) ?? undefined];
    if (name === 'limits' && (own as unknown[]).length === 0) return [name, undefined];
    if (name === 'thresholds') return [name, (own as number[]).toSorted((a, b) => a - b)];
    if (own === null) return [name, ['unitCap', 'expires'].includes(name) ? null : undefined];
    const toDecimal = decimals[name];
    if (toDecimal) return [name, toDecimal(textOf(name) as string, place + name)];
    return [name, toStored(own, textOf(name), `${place}${name}/`)];
  });
  return Object.fromEntries(fields.filter(([, own]) => own !== undefined));
}

/** `toJson` writes decimals as numbers with all digits. */
export function definitionJson({ entitlements, grants, trial }: Definition) {
  const grantsJson = (list: PlanGrant[]) =>
    list.map(({ key, amount: digits, every, expires, ...grant }) => ({
      key,
      amount: exact(digits),
      every,
      expires,
      ...grant,
    }));
  return {
    entitlements: entitlements.map(({ productSlug, kind, unitCap, limits, ...entitlement }) => ({
      productSlug,
      kind,
      ...(unitCap === undefined ? {} : { unitCap: exact(unitCap) }),
      ...(limits ? { limits: limits.map(declaredLimitJson) } : {}),
      ...entitlement,
    })),
    grants: grantsJson(grants),
    ...(trial && { trial: { ...trial, ...(trial.grants && { grants: grantsJson(trial.grants) }) } }),
  };
}
