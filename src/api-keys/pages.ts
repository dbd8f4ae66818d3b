import type { Router } from 'express';
import { pageRouter } from '../core/pages/page-router.js';
import type { KeyDeps } from './api-keys.js';
import { addCreatePages } from './create-pages.js';
import { addKeyPages } from './key-pages.js';
import { addListPage } from './list-page.js';
import { addRevokePages } from './revoke-pages.js';
import { addRotatePages } from './rotate-pages.js';

/** API keys for people. Whoever asks for no page falls through to the JSON routes at the same addresses. */
export function apiKeyPages(deps: KeyDeps): Router {
  const router = pageRouter();
  addListPage(router, deps);
  addCreatePages(router, deps);
  addRotatePages(router, deps);
  addRevokePages(router, deps);
  addKeyPages(router, deps);
  return router;
}
