import type { Request, RequestHandler } from 'express';
import { AppError } from '../errors.js';

/** A browser that shows pages. A client that takes anything (as fetch and curl do by default) gets JSON. */
export const prefersHtml = (req: Request): boolean => req.accepts(['json', 'html']) === 'html';

export const prefersJson = (req: Request): boolean => req.accepts(['html', 'json']) === 'json';

/** A browser on its way to a page, which can be sent somewhere else. */
export const isNavigation = (req: Request): boolean =>
  (req.method === 'GET' || req.method === 'HEAD') && prefersHtml(req);

/**
 * Refuses addresses that stand for no text: percent-encoded bytes that are no UTF-8 (halves of surrogate pairs among
 * them), and NUL, which the database cannot store. Paths and queries need no look of their own for these.
 * @throws AppError invalid_request
 */
export const requireWholeAddress: RequestHandler = (req, _res, next) => {
  if (req.headers.host === undefined && req.httpVersion === '1.1')
    throw new AppError('invalid_request', 'Send the header Host.');
  if (req.url.includes('%') && !isText(req))
    throw new AppError('invalid_request', 'The address must be percent-encoded UTF-8 without NUL.');
  next();
};

function isText(req: Request): boolean {
  const [path = '', query = ''] = req.url.split(/\?(.*)/s, 2);
  try {
    const [decodedPath, decodedQuery] = [decodeURIComponent(path), decodeURIComponent(query)];
    // A page says beside its field what it does not take.
    return !decodedPath.includes('\0') && (prefersHtml(req) || !decodedQuery.includes('\0'));
  } catch {
    return false;
  }
}

/**
 * True if the client has what the tag names (`If-None-Match`, RFC 9110, 13.1.2). Express's `fresh` says no where
 * `Cache-Control: no-cache` is sent as well, as `fetch` does; but that asks to be told anew, which a 304 does.
 */
export function hasCopy(req: Request<object>, etag: string): boolean {
  const header = req.headers['if-none-match'];
  if (header === undefined) return false;
  const opaque = etag.replace(/^W\//, '');
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === opaque);
}
