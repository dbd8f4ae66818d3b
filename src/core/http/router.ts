import { Router } from 'express';

/**
 * Creates a router that matches addresses exactly. By default, Express also serves `/readyz/` and `/READYZ`, which pass
 * a proxy's rule for `/readyz`.
 */
export const createRouter = (): Router => Router({ strict: true, caseSensitive: true });
