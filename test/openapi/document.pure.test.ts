import { describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../src/core/errors.js';
import { buildDocument } from '../../src/core/reference/document.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';

type Json = { [key: string]: Json } & Json[];

const reference = await describeService(products);
const document = JSON.parse(JSON.stringify(buildDocument(reference))) as Json;
const operations = Object.entries(document.paths!).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
);
const schemas = document.components!.schemas!;

/** Calls `visit` with every object in the document and its path. */
function walk(node: unknown, place: string, visit: (node: Json, place: string) => void): void {
  if (typeof node !== 'object' || node === null) return;
  visit(node as Json, place);
  for (const [key, inner] of Object.entries(node)) {
    // Examples may contain any keys.
    if (key !== 'examples') walk(inner, `${place}/${key}`, visit);
  }
}

const resolve = (ref: string): unknown =>
  ref
    .slice(2)
    .split('/')
    .reduce<Json | undefined>(
      (node, key) => node?.[key.replaceAll('~1', '/').replaceAll('~0', '~')],
      document,
    );

describe('the OpenAPI document', () => {
  it('is OpenAPI 3.1 with the version of the package', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.info!.version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('has no reference that leads nowhere', () => {
    const dangling: string[] = [];
    walk(document, '#', (node, place) => {
      if (typeof node.$ref === 'string' && resolve(node.$ref) === undefined) dangling.push(place);
    });
    expect(dangling).toEqual([]);
  });

  it('uses every component that it has', () => {
    const used = new Set<string>();
    walk(document, '#', (node) => {
      if (typeof node.$ref === 'string') used.add(node.$ref);
    });
    const unused = (['schemas', 'headers'] as const).flatMap((kind) =>
      Object.keys(document.components![kind]!)
        .map((name) => `#/components/${kind}/${name}`)
        .filter((ref) => !used.has(ref)),
    );
    expect(unused).toEqual([]);
  });

  it('has words for every circumstance of an example', () => {
    expect(JSON.stringify(document)).not.toMatch(/At that time, undefined|with undefined/);
  });

  it('names each operation once', () => {
    const ids = operations.map(({ operation }) => operation.operationId as unknown as string);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[a-z][A-Za-z]+$/);
  });

  it('describes each operation in words, under a tag and a security scheme that exist', () => {
    const tags = new Set(document.tags!.map((tag) => tag.name));
    const schemes = Object.keys(document.components!.securitySchemes!);
    for (const { operation } of operations) {
      expect(String(operation.summary)).not.toBe('');
      expect(String(operation.description).length).toBeGreaterThan(20);
      for (const tag of operation.tags!) expect(tags).toContain(tag);
      for (const scheme of operation.security!.flatMap((requirement) => Object.keys(requirement)))
        expect(schemes).toContain(scheme);
    }
  });

  it('describes exactly the parameters of each path, in words', () => {
    for (const { path, operation } of operations) {
      const parameters = (operation.parameters ?? []) as unknown as Record<string, unknown>[];
      const inPath = parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${String(name)}}`).sort()).toEqual(
        (path.match(/\{\w+\}/g) ?? []).sort(),
      );
      for (const parameter of parameters)
        expect(parameter.description, `${path} ${String(parameter.name)}`).toBeTruthy();
      for (const parameter of inPath) expect(parameter.required).toBe(true);
    }
  });

  it('has only patterns that compile, and no component that is null by accident', () => {
    walk(document, '#', (node, place) => {
      if (typeof node.pattern === 'string')
        expect(() => new RegExp(node.pattern as unknown as string, 'u'), place).not.toThrow();
      if (typeof node.pattern === 'string') expect(node.pattern, place).not.toMatch(/\/[a-z]+$/);
    });
    for (const [name, schema] of Object.entries(schemas)) expect(schema.type, name).not.toContain('null');
  });

  it('lists every error code of the service', () => {
    expect(schemas.ErrorCode!.enum).toEqual(Object.keys(reference.statuses));
  });
});

describe.each(reference.routes)('the description of $method $path', (route) => {
  const operation = document.paths![route.path]![route.method]!;

  it('documents each error code under its status', () => {
    for (const code of route.errors) {
      const { schema } =
        operation.responses![reference.statuses[code]]!.content!['application/problem+json']!;
      expect(schema!.allOf![0]!.$ref).toBe('#/components/schemas/Problem');
      expect(schema!.allOf![1]!.properties!.code!.enum).toContain(code);
    }
  });

  it('has an example for each successful answer and for each error code', () => {
    const statuses = new Set(route.examples.map(({ response }) => response.status));
    for (const status of Object.keys(route.responses)) expect(statuses).toContain(Number(status));
    const codes = route.examples.map(
      ({ response }) => (response.body as { code?: ErrorCode } | undefined)?.code,
    );
    for (const code of route.errors) expect(codes).toContain(code);
    expect(new Set(route.examples.map(({ name }) => name)).size).toBe(route.examples.length);
  });

  it('shows each example in the document', () => {
    for (const { name, response } of route.examples) {
      const { content } = operation.responses![response.status]!;
      if (response.body === undefined) continue;
      const shown = Object.values(content!).map(({ examples }) => examples![name]?.value);
      expect(shown).toContainEqual(JSON.parse(JSON.stringify(response.body)));
    }
  });
});
