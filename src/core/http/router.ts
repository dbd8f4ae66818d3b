import { Router } from 'express';

/**
 * By default, Express also serves `/readyz/` and `/READYZ`, which pass a proxy's rule for `/readyz`.
 * @param strict false also serves addresses with a slash at the end, which programs may already call
 */
export const createRouter = ({ strict = true } = {}): Router => Router({ strict, caseSensitive: true });
