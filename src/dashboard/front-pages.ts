import type { RequestHandler, Router } from 'express';
import { originOf, prefersHtml } from '../core/http/request.js';
import { renderPage, type PageDeps, pageRouter } from '../core/pages/layout.js';
import { toSamples } from '../core/reference/samples.js';
import { groupByPerson, type ListDemoLogins } from '../accounts/identity/sign-in/demo-logins.js';
import { organizationArchived, sessionOf, type ReadSession } from '../accounts/identity/session/session.js';

const description = 'Meter usage, enforce limits and charge credits, with every event counted exactly once.';

export function frontPages(
  deps: PageDeps,
  readSession: ReadSession,
  before: RequestHandler[],
  listDemoLogins: ListDemoLogins,
  introductions: readonly string[],
): Router {
  return pageRouter().get('/', ...before, async (req, res) => {
    const session = await readSession(req);
    res.locals.person = session;
    const page = { view: 'front', title: 'Usage metering', description, frame: 'card' } as const;
    await renderPage(deps, req, res, page, {
      logins: session ? [] : groupByPerson(listDemoLogins()),
      introductions,
      samples: await makeSamples(originOf(req)),
    });
  });
}

async function makeSamples(origin: string) {
  const { highlight } = await import('../core/reference/highlight.js');
  const event = { productSlug: 'assistant', metric: 'tokens', quantity: 1523, idempotencyKey: 'answer-1042' };
  const apiKey = 'org_live_…';
  const samples = toSamples({
    method: 'POST',
    origin,
    path: '/api/usage/events',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ events: [event] }),
    answers: 'json',
    typed: {
      template: '/api/usage/events',
      key: { apiKey },
      organization: undefined,
      params: { path: {}, query: {}, header: {} },
      python: ['print(gauge.send({events}))'],
    },
  });
  return samples.map(({ code: full, ...sample }) => {
    // Options for a terminal distract from the request.
    const code = full.replace(" -sS -w '\\n'", '');
    return { ...sample, code, html: highlight(code, sample.id) };
  });
}

/** Members of an archived Organization see only that. Each change checks this again. */
export function hideArchived(deps: PageDeps): RequestHandler {
  return async (req, res, next) => {
    const { isArchived, orgName } = sessionOf(res);
    if (!isArchived) return next();
    if (!prefersHtml(req)) throw organizationArchived(orgName);
    res.status(403);
    await renderPage(deps, req, res, { view: 'archived', title: 'Archived Organization' }, {});
  };
}
