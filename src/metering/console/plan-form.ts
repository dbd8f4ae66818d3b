import { isDeepStrictEqual } from 'node:util';
import { parseDocument, stringify, visit } from 'yaml';
import { z } from 'zod';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { toPlain, toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { parseJson } from '../../core/http/body.js';
import { exactTag } from '../../core/http/exact-yaml.js';
import { exact, toJson } from '../../core/http/json.js';
import { decimalField, parseExactly, parseInput } from '../../core/http/validate.js';
import { fieldError, type FormFields } from '../../core/pages/form.js';
import {
  dropBlankRows,
  readFields,
  toRows,
  writeFields,
  type FieldTree,
  type RowKinds,
} from '../../core/pages/rows.js';
import { defaultThresholds } from '../entitlements/limits.js';
import type { Plan } from '../plans/queries.js';
import {
  definitionJson,
  MAX_ENTITLEMENTS,
  MAX_GRANTS,
  planSchema,
  readDefinition,
  periods,
  type Definition,
  type PlanGrant,
} from '../plans/schema.js';
import { keepWindows, limitKind, option, termsShape, toOwnCap, writeTerms } from './entitlement-rows.js';

const definitionSchema = planSchema.omit({ name: true });

const writeGrant = (grant: PlanGrant): FieldTree => ({
  key: grant.key,
  amount: grant.amount,
  every: grant.every,
  expires: grant.expires ?? 'never',
  priority: String(grant.priority ?? ''),
  rollover: {
    percent: String(grant.rollover?.percent ?? ''),
    for: String(parseInt(grant.rollover?.for.slice(1) ?? '', 10) || ''),
  },
  productSlugs: [...(grant.productSlugs ?? [])],
});

export const planRows: RowKinds = {
  ...limitKind,
  entitlements: { most: MAX_ENTITLEMENTS, blank: { productSlug: '', ...writeTerms({ kind: 'live' }) } },
  grants: {
    most: MAX_GRANTS,
    blank: writeGrant({ key: '', amount: '', every: 'month', expires: 'period' }),
  },
};

/** A longer form would be too large to send. */
const MAX_ROWS = 20;

export function toFields({ name, definition }: Plan, asYaml: boolean): FormFields {
  const { entitlements, grants, trial } = definition;
  const rows = entitlements.reduce((sum, { limits = [] }) => sum + 1 + limits.length, 0);
  if (asYaml || rows > MAX_ROWS) {
    const customTags = (tags: object[]) => [exactTag, ...tags];
    return {
      name,
      definition: stringify(definitionJson(definition), { customTags, lineWidth: 0 } as object),
    };
  }
  return writeFields({
    name,
    entitlements: toRows(
      entitlements.map(({ productSlug, ...terms }) => ({ productSlug, ...writeTerms(terms) })),
    ),
    grants: toRows(grants.map(writeGrant)),
    trial: { days: String(trial?.days ?? ''), grants: toRows((trial?.grants ?? []).map(writeGrant)) },
  });
}

const wholeField = z
  .string()
  .trim()
  .regex(/^\d{1,9}$/, 'must be a whole number, like 14')
  .transform(Number);

const entitlementRow = z
  .strictObject({ productSlug: slugSchema, ...termsShape })
  .transform(({ cap, ...typed }, context) => ({ ...typed, unitCap: toOwnCap({ cap, ...typed }, context) }));

const grantRow = z.strictObject({
  key: z.string(),
  amount: decimalField.transform((typed) => toPlainDecimal(typed, 0)),
  every: z.enum(periods, option),
  expires: z.enum(['period', 'never'], option).transform((expires) => (expires === 'never' ? null : expires)),
  priority: wholeField.optional(),
  rollover: z
    .strictObject({ percent: wholeField.optional(), for: wholeField.optional() })
    .default({})
    .transform(({ percent, for: days }, context) => {
      if (percent === undefined && days === undefined) return undefined;
      if (percent !== undefined && days !== undefined) return { percent, for: `P${days}D` };
      const path = [percent === undefined ? 'percent' : 'for'];
      context.addIssue({ code: 'custom', path, message: 'is required for a rollover', input: '' });
      return z.NEVER;
    }),
  productSlugs: z
    .union([z.array(z.string()), z.string()])
    .optional()
    .transform((slugs) => (slugs === undefined ? undefined : [slugs].flat())),
});

const rowsSchema = z.object({
  entitlements: z.array(entitlementRow).default([]),
  grants: z.array(grantRow).default([]),
  trial: z.strictObject({ days: wholeField.optional(), grants: z.array(grantRow).optional() }).default({}),
});

/**
 * @param current its parts that have no field stay
 * @throws AppError invalid_request that names the fields, by the numbers that their rows have afterwards
 */
export function readPlanForm(fields: FormFields, current: Definition | undefined): Definition {
  if (typeof fields.definition === 'string') return readYaml(fields.definition);
  dropBlankRows(fields, 'entitlements', ['productSlug', 'unitCap', 'limits', 'features']);
  for (const list of ['grants', 'trial.grants']) dropBlankRows(fields, list, ['key', 'amount']);
  const { entitlements, grants, trial } = parseInput(rowsSchema, readFields(fields));
  // A trial without credits has no rows.
  const noGrants = current?.trial?.grants?.length === 0 ? [] : undefined;
  const before = new Map(current?.entitlements.map((one) => [one.productSlug, one]));
  const json = {
    entitlements: entitlements.map(({ thresholds, ...terms }) => ({
      ...terms,
      limits: keepWindows(terms.limits, before.get(terms.productSlug)?.limits ?? []),
      ...(isDeepStrictEqual(thresholds, defaultThresholds) ? {} : { thresholds }),
    })),
    grants,
    ...((trial.days !== undefined || trial.grants) && {
      trial: { ...trial, grants: trial.grants ?? noGrants },
    }),
  };
  return checkDefinition(toJson(definitionJson(json as Definition)));
}

const checkDefinition = (text: string): Definition =>
  readDefinition(parseExactly(definitionSchema, parseJson(text)), text);

/** @throws AppError invalid_request that names the part of the definition */
function readYaml(yaml: string): Definition {
  const document = parseDocument(yaml, { schema: 'core', prettyErrors: false });
  const [mistake] = document.errors;
  if (mistake) throw fieldError('definition', `is not YAML: ${mistake.message}`);
  visit(document, {
    Scalar(_, scalar) {
      // Keeps all digits.
      if (typeof scalar.value === 'number' && /^\d+(\.\d+)?$/.test(scalar.source ?? ''))
        scalar.value = exact(toPlain(scalar.source!));
    },
  });
  const text = toJson(document.toJS({ maxAliasCount: 100 }) ?? {});
  try {
    return checkDefinition(text);
  } catch (error) {
    if (!(error instanceof AppError) || !error.errors?.length) throw error;
    const { pointer, detail } = error.errors[0]!;
    throw fieldError('definition', `has a mistake: ${pointer.slice(1)} ${detail}`);
  }
}
