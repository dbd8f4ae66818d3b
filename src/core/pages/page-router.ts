import { Router } from 'express';

const pages = Symbol('pages');

/**
 * A router whose routes answer with pages for people. They are no part of the API that the reference describes; the
 * tests find them by this mark, to look at each of them with every role.
 */
export const pageRouter = (): Router => Object.assign(Router(), { [pages]: true });

export const isPageRouter = (handler: object): boolean => pages in handler;
