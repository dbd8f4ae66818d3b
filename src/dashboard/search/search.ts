import { z } from 'zod';
import type { Request, Response } from 'express';
import { isSecretShaped } from '../../accounts/api-keys/bearer-key.js';
import type { SessionPrincipal } from '../../accounts/identity/session/session.js';
import { groupBy } from '../../core/collections.js';
import { text } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { parseQueryForm, readQuery, tryQuery } from '../../core/pages/form.js';
import { renderPage, type PageDeps } from '../../core/pages/layout.js';
import { beginsWord } from '../../core/reference/search.js';

export interface SearchHit {
  href: string;
  /** Chosen by a user. */
  name: string;
  note?: string | undefined;
}

export interface SearchGroup {
  label: string;
  hits: SearchHit[];
}

/** A few of each kind that this member may see. */
export type FindForMember = (query: string, me: SessionPrincipal) => Promise<SearchGroup[]>;
export type FindForOperator = (query: string) => Promise<SearchGroup[]>;

/** Per kind. */
export const MAX_HITS = 6;

export interface FoundPage {
  href: string;
  label: string;
  /** Synonyms, in lower case. */
  words?: string | undefined;
  note?: string | undefined;
}

/** Each word of the query is a part of the label or begins a synonym. */
export function findPages(query: string, pages: readonly FoundPage[]): SearchGroup {
  const wanted = query.toLowerCase().split(/\s+/);
  const hits = pages
    .filter(({ label, words = '' }) =>
      wanted.every((word) => label.toLowerCase().includes(word) || beginsWord(words, word)),
    )
    .map(({ href, label, note }) => ({ href, name: label, note }));
  return { label: 'Pages and actions', hits: hits.slice(0, MAX_HITS) };
}

/** Names with a word that begins with the query come first, and so do their groups. Drops empty groups. */
export function joinGroups(groups: readonly SearchGroup[], query: string): SearchGroup[] {
  const wanted = query.toLowerCase();
  const isInside = ({ name }: SearchHit) => Number(!beginsWord(name.toLowerCase(), wanted));
  return [...groupBy(groups, ({ label }) => label)]
    .map(([label, same]) => ({
      label,
      hits: same.flatMap(({ hits }) => hits).toSorted((a, b) => isInside(a) - isInside(b)),
    }))
    .filter(({ hits }) => hits.length > 0)
    .toSorted((a, b) => isInside(a.hits[0]!) - isInside(b.hits[0]!))
    .map(({ label, hits }) => ({ label, hits: hits.slice(0, MAX_HITS) }));
}

/** Copied text often comes with spaces around it, or in the quotes of JSON. */
export const unquote = (typed: string): string => typed.trim().replace(/^(["'`])\s*(.*?)\s*\1$/, '$2');

/** The longest idempotency key has this length. */
const querySchema = z.object({ q: text(255).optional() });

export async function showSearch(
  deps: PageDeps,
  req: Request,
  res: Response,
  path: string,
  find: (query: string) => Promise<SearchGroup[]>,
  suggested: readonly FoundPage[],
): Promise<void> {
  const query = readQuery(req);
  const { form, result } = await tryQuery(res, query, async () => {
    const typed = parseQueryForm(querySchema, query).q;
    const q = typed && unquote(typed);
    // A secret pasted into the search must not stay in the URL.
    if (q !== undefined && isSecretShaped(q)) return { secret: q };
    return { q, groups: q ? joinGroups(await find(q), q) : [findPages('', suggested)] };
  });
  if (result?.secret !== undefined) {
    res.redirect(303, toAddress(path, { q: result.secret.slice(0, 12) }));
    return;
  }
  const page = { view: 'search/search', title: 'Search' };
  await renderPage(deps, req, res, page, {
    form,
    path,
    q: result?.q,
    groups: result?.groups,
    docsHref: toAddress('/docs/search', { q: result?.q?.slice(0, 100) }),
  });
}
