import type { OpenApiDocument } from './document.js';

interface Document {
  paths: object;
  components: { schemas: Record<string, Schema> };
}

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: (string | null)[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

/** In the order of first use. */
export function toPythonTypes(document: OpenApiDocument, under: string): string {
  const { paths, components } = JSON.parse(JSON.stringify(document)) as Document;
  const names = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const name = '$ref' in value ? schemaName(String(value.$ref)) : undefined;
    if (name !== undefined && !names.has(name)) {
      names.add(name);
      visit(components.schemas[name]);
    }
    Object.values(value).forEach(visit);
  };
  for (const [path, item] of Object.entries(paths)) if (path.startsWith(under)) visit(item);

  const classes = [...names].flatMap((name) => toClasses(name, components.schemas[name]!));
  return `"""Types of the requests and answers of \`${under}\`, generated from the OpenAPI document by \`npm run client:python\`."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

${classes.join('\n')}`;
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
