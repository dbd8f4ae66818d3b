import type { Response } from 'express';

/** The `X-Request-Id` of a request, as its answer carries it. */
export const requestIdOf = (res: Response): string => String(res.getHeader('X-Request-Id') ?? '');
