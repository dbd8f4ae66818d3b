import type { Express, RequestHandler } from 'express';
import { AppError } from '../errors.js';
import { nothingHere } from './problem.js';

/** Express's types do not declare it. */
interface Layer {
  match(path: string): { path: string } | false;
  handle: { stack?: Layer[] };
  route?: { methods: Record<string, boolean> };
}

/** 405 with `Allow` if the URL supports other methods, otherwise 404. */
export const unknownRoute: RequestHandler = (req, _res, next) => {
  const path = req.originalUrl.split('?', 1)[0]!;
  const methods = methodsAt((req.app as Express).router.stack as unknown as Layer[], path);
  if (methods.size === 0) {
    next(nothingHere());
    return;
  }
  if (methods.has('GET')) methods.add('HEAD');
  const allow = [...methods].sort().join(', ');
  const choices = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(allow.split(', '));
  next(
    new AppError('method_not_allowed', `${req.method} is not allowed here. Use ${choices}.`, {
      allow,
    }),
  );
};

function methodsAt(stack: Layer[], path: string): Set<string> {
  return new Set(
    stack.flatMap((layer) => {
      const { route, handle } = layer;
      const match = (route ?? handle.stack) && layer.match(path);
      if (!match) return [];
      return route
        ? Object.keys(route.methods).map((method) => method.toUpperCase())
        : [...methodsAt(handle.stack!, path.slice(match.path.length) || '/')];
    }),
  );
}
