import type { Request } from 'express';

/** A browser that shows pages. Whoever takes anything (as fetch and curl do by default) gets JSON. */
export const prefersHtml = (req: Request): boolean => req.accepts(['json', 'html']) === 'html';

/** Asks for JSON by name. */
export const prefersJson = (req: Request): boolean => req.accepts(['html', 'json']) === 'json';

/** A browser on its way to a page, which can be sent somewhere else. */
export const isNavigation = (req: Request): boolean =>
  (req.method === 'GET' || req.method === 'HEAD') && prefersHtml(req);
