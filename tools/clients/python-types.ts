import type { OpenApiDocument } from '../../src/core/reference/document.js';

interface Document {
  paths: Record<string, Record<string, { requestBody?: unknown }>>;
  components: { schemas: Record<string, Schema> };
}

interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  enum?: (string | null)[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

/** In the order of first use. */
export function toPythonTypes(document: OpenApiDocument, roots: readonly string[]): string {
  const { paths, components } = JSON.parse(JSON.stringify(document)) as Document;
  const visit = (value: unknown, names: Set<string>): Set<string> => {
    if (typeof value !== 'object' || value === null) return names;
    const name = '$ref' in value ? schemaName(String(value.$ref)) : undefined;
    if (name !== undefined && !names.has(name)) {
      names.add(name);
      visit(components.schemas[name], names);
    }
    for (const inner of Object.values(value)) visit(inner, names);
    return names;
  };
  const items = Object.entries(paths).flatMap(([path, item]) =>
    roots.some((root) => path.startsWith(root)) ? [item] : [],
  );
  const bodies = items.flatMap((item) => Object.values(item).map(({ requestBody }) => requestBody));
  const sent = visit(bodies, new Set());
  const classes = [...visit(items, new Set())].flatMap((name) =>
    toClasses(name, sent.has(name) ? toInput(components.schemas[name]!) : components.schemas[name]!),
  );
  return `"""Types of the requests and answers of ${roots.map((root) => `\`${root}\``).join(' and ')}, generated from the OpenAPI document by \`npm run client:python\`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

${classes.join('\n')}`;
}

const identifiers = new Set(['idempotencyKey', 'idempotencyKeys', 'correctionKey', 'subject']);

/** In requests, the client accepts Decimals, datetimes and UUIDs, and leaves out optional fields that are None. */
function toInput(schema: Schema): Schema {
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const accepted = widen(field, identifiers.has(name));
    const isOptional = schema.required?.includes(name) !== true;
    return [name, isOptional ? { anyOf: [accepted, { type: 'null' }] } : accepted] as const;
  });
  return schema.properties ? { ...schema, properties: Object.fromEntries(fields) } : schema;
}

function widen(schema: Schema, isIdentifier: boolean): Schema {
  if (schema.type === 'number') return { anyOf: [schema, { type: 'decimal' }] };
  if (schema.format === 'date-time') return { anyOf: [schema, { type: 'datetime' }] };
  if (schema.items) return { ...schema, items: widen(schema.items, isIdentifier) };
  return isIdentifier ? { anyOf: [schema, { type: 'uuid' }] } : schema;
}

const schemaName = (reference: string): string | undefined =>
  /^#\/components\/schemas\/(\w+)$/.exec(reference)?.[1];

const keywords = new Set(['for', 'from', 'in', 'is', 'not', 'or', 'and', 'if', 'class', 'with', 'as']);

/** Nested objects become classes of their own, before the class that uses them. */
function toClasses(name: string, schema: Schema): string[] {
  const { properties, required = [] } = schema;
  if (!properties) return [`${name} = ${toType(name, schema, [])}\n`];
  const inner: string[] = [];
  const fields = Object.entries(properties).map(([field, value]) => ({
    line: `    ${field}: ${toType(name + field[0]!.toUpperCase() + field.slice(1), value, inner)}\n`,
    isRequired: required.includes(field),
  }));
  if (Object.keys(properties).some((field) => keywords.has(field))) {
    const parts = fields.map(({ line }) => line.trim().replace(/^(\w+): /, '"$1": '));
    return [...inner, `\n${name} = TypedDict("${name}", {${parts.join(', ')}})\n`];
  }
  const needed = fields.filter(({ isRequired }) => isRequired).map(({ line }) => line);
  const optional = fields.filter(({ isRequired }) => !isRequired).map(({ line }) => line);
  // `NotRequired` needs Python 3.11, so optional fields go into a class with `total=False`.
  if (needed.length === 0)
    return [...inner, `\nclass ${name}(TypedDict, total=False):\n${optional.join('')}`];
  if (optional.length === 0) return [...inner, `\nclass ${name}(TypedDict):\n${needed.join('')}`];
  return [
    ...inner,
    `\nclass _${name}Required(TypedDict):\n${needed.join('')}`,
    `\nclass ${name}(_${name}Required, total=False):\n${optional.join('')}`,
  ];
}

const simple: Record<string, string> = {
  string: 'str',
  number: 'float',
  integer: 'int',
  boolean: 'bool',
  decimal: 'Decimal',
  datetime: 'datetime',
  uuid: 'UUID',
};

function toType(name: string, schema: Schema, inner: string[]): string {
  const { $ref, type, items, properties } = schema;
  if ($ref !== undefined) return schemaName($ref)!;
  if (type === 'null') return 'None';
  if (schema.enum) return toLiteral(schema.enum);
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return toUnion(options.map((option) => toType(name, option, inner)));
  if (Array.isArray(type)) return toUnion(type.map((one) => toType(name, { ...schema, type: one }, inner)));
  if (items) return `list[${toType(name, items, inner)}]`;
  if (properties) {
    inner.push(...toClasses(name, schema));
    return name;
  }
  return (type !== undefined && simple[type]) || (type === 'object' ? 'dict[str, Any]' : 'Any');
}

const toUnion = (types: string[]): string => [...new Set(types)].join(' | ');

function toLiteral(values: (string | null)[]): string {
  const texts = values.filter((value) => value !== null).map((value) => JSON.stringify(value));
  return `Literal[${texts.join(', ')}]${values.includes(null) ? ' | None' : ''}`;
}
