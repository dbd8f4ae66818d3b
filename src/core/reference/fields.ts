import type { OpenApiDocument } from './document.js';

/** The part of JSON Schema that the document uses. */
export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: boolean | JsonSchema;
  allOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

/** One field of a body, as a reader sees it. */
export interface Field {
  /** `events[].metric`. */
  name: string;
  type: string;
  isRequired: boolean;
  /** Markdown. */
  description: string;
}

/** Deeper than any schema of the document; a schema that contains itself ends there. */
const MAX_DEPTH = 6;

/** Every field of a schema, its parents before it. */
export function listFields(document: OpenApiDocument, schema: JsonSchema, path = '', depth = 0): Field[] {
  if (depth > MAX_DEPTH) return [];
  const { properties = {}, required = [], ...rest } = resolve(document, schema);
  const own = Object.entries(properties).flatMap(([key, inner]) => {
    const name = path === '' ? key : `${path}.${key}`;
    const { description = '' } = { ...resolve(document, inner), ...inner };
    const field = { name, type: typeOf(document, inner), isRequired: required.includes(key), description };
    return [field, ...listFields(document, inner, name, depth + 1)];
  });
  const parts = [...(rest.allOf ?? []), ...(rest.anyOf ?? []), ...(rest.oneOf ?? [])];
  const variants = parts.flatMap((part) => listFields(document, part, path, depth + 1));
  const items = rest.items ? listFields(document, rest.items, `${path}[]`, depth + 1) : [];
  const values =
    typeof rest.additionalProperties === 'object'
      ? listFields(document, rest.additionalProperties, `${path}.*`, depth + 1)
      : [];
  return distinct([...own, ...variants, ...items, ...values]);
}

/** Variants share fields: a field is told once, with all of its types. */
function distinct(fields: Field[]): Field[] {
  const byName = new Map<string, Field>();
  for (const field of fields) {
    const known = byName.get(field.name);
    if (!known) byName.set(field.name, field);
    else if (!known.type.split(' or ').includes(field.type))
      byName.set(field.name, { ...known, type: `${known.type} or ${field.type}` });
  }
  return [...byName.values()];
}

export function typeOf(document: OpenApiDocument, schema: JsonSchema): string {
  const { type, format, items, ...rest } = resolve(document, schema);
  if (rest.const !== undefined) return JSON.stringify(rest.const);
  if (rest.enum) return rest.enum.map((value) => JSON.stringify(value)).join(' or ');
  const variants = rest.anyOf ?? rest.oneOf;
  if (variants) return [...new Set(variants.map((variant) => typeOf(document, variant)))].join(' or ');
  if (rest.allOf) return typeOf(document, rest.allOf[0]!);
  if (items) return `list of ${typeOf(document, items)}`;
  const names = [type ?? 'any'].flat().join(' or ');
  return format === undefined ? names : `${names}, ${format}`;
}

function resolve(document: OpenApiDocument, schema: JsonSchema): JsonSchema {
  if (schema.$ref === undefined) return schema;
  const name = schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1);
  return document.components?.schemas?.[name] ?? {};
}
