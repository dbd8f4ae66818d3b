import type { Express } from 'express';

/** What Express keeps of a mounted handler. Its types do not describe it. */
interface Layer {
  rawPath?: unknown;
  handle: { stack?: Layer[] };
  route?: { path: unknown; methods: Record<string, boolean> };
}

/** Every route of the app as `get /dashboard/api-keys/{id}`, by walking its routers to the ground. */
export function listMountedRoutes(app: Express): string[] {
  return walk((app.router as unknown as { stack: Layer[] }).stack, '').sort();
}

function walk(stack: Layer[], prefix: string): string[] {
  return stack.flatMap((layer) => {
    if (layer.route) {
      const { path, methods } = layer.route;
      const address = toDescribedPath(prefix, path);
      return Object.keys(methods).map((method) => `${method} ${address}`);
    }
    if (layer.handle.stack) return walk(layer.handle.stack, joinPaths(prefix, layer.rawPath));
    // Middleware: answers nothing by itself but errors.
    return [];
  });
}

function toDescribedPath(prefix: string, path: unknown): string {
  const address = joinPaths(prefix, path).replace(/:(\w+)/g, '{$1}');
  if (!/^(\/[\w.-]+|\/\{\w+\})+$|^\/$/.test(address))
    throw new Error(`OpenAPI cannot describe the path ${address}.`);
  return address;
}

function joinPaths(prefix: string, path: unknown): string {
  if (typeof path !== 'string') throw new Error(`A path under "${prefix}" is no plain text: ${String(path)}`);
  return path === '/' ? prefix || '/' : `${prefix === '/' ? '' : prefix}${path}`;
}
