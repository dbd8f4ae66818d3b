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
      const methods = Object.keys(layer.route.methods);
      const addresses = joinPaths(prefix, layer.route.path).map(toDescribedPath);
      return addresses.flatMap((address) => methods.map((method) => `${method} ${address}`));
    }
    const { stack: nested } = layer.handle;
    // Middleware answers nothing by itself but errors, whether it is a function or a router without routes.
    if (!nested || !hasRoutes(nested)) return [];
    return joinPaths(prefix, layer.rawPath).flatMap((mount) => walk(nested, mount));
  });
}

const hasRoutes = (stack: Layer[]): boolean =>
  stack.some(({ route, handle }) => route !== undefined || hasRoutes(handle.stack ?? []));

function toDescribedPath(path: string): string {
  const address = path.replace(/:(\w+)/g, '{$1}');
  if (!/^(\/[\w.-]+|\/\{\w+\})+$|^\/$/.test(address))
    throw new Error(`OpenAPI cannot describe the path ${address}.`);
  return address;
}

function joinPaths(prefix: string, path: unknown): string[] {
  return [path].flat(Infinity).map((part) => {
    if (typeof part !== 'string') throw new Error(`A path under "${prefix}" is no text: ${String(part)}`);
    return part === '/' ? prefix || '/' : `${prefix === '/' ? '' : prefix}${part}`;
  });
}
