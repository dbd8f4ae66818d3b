import type { Express } from 'express';
import { isPageRouter } from '../../../src/core/pages/layout.js';

/** The fields of Express's mounted handlers that are missing from its types. */
interface Layer {
  rawPath?: unknown;
  handle: { stack?: Layer[] };
  route?: { path: unknown; methods: Record<string, boolean> };
}

interface MountedRoute {
  /** Method and path, for example `get /dashboard/api-keys/{id}`. */
  address: string;
  isPage: boolean;
}

/** Lists every API route, found by walking the app's routers. */
export const listMountedRoutes = (app: Express): string[] => listRoutes(app, false);

/** Lists every page and every form on a page; neither is part of the API. */
export const listPageRoutes = (app: Express): string[] => listRoutes(app, true);

function listRoutes(app: Express, isPage: boolean): string[] {
  const routes = walk((app.router as unknown as { stack: Layer[] }).stack, '', false);
  return routes
    .filter((route) => route.isPage === isPage)
    .map(({ address }) => address)
    .sort();
}

function walk(stack: Layer[], prefix: string, isPage: boolean): MountedRoute[] {
  return stack.flatMap((layer) => {
    if (layer.route) {
      const methods = Object.keys(layer.route.methods);
      const addresses = joinPaths(prefix, layer.route.path).map(toDescribedPath);
      return addresses.flatMap((address) =>
        methods.map((method) => ({ address: `${method} ${address}`, isPage })),
      );
    }
    const { stack: nested } = layer.handle;
    // Skips middleware (a function, or a router without routes), because middleware responds only with errors.
    if (!nested || !hasRoutes(nested)) return [];
    const isPageInside = isPage || isPageRouter(layer.handle);
    return joinPaths(prefix, layer.rawPath).flatMap((mount) => walk(nested, mount, isPageInside));
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
