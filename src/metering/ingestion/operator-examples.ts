import type { Example } from '../../core/reference/define-route.js';
import { brokenRule, good as today, problems } from './examples.js';

export const acme = { slug: 'acme' };
const [event] = today.events;
export const good = { events: [{ ...event!, occurredAt: '2025-12-20T08:00:00Z' }] };

export const operatorSuccesses: Example[] = [
  {
    name: 'accepted',
    summary: 'An event of six weeks ago',
    request: { params: acme, body: good },
    answer: { accepted: 1, deduped: 0, warnings: [] },
  },
  {
    name: 'repeated',
    summary: 'The same batch again: counted once',
    before: [{ params: acme, body: good }],
    request: { params: acme, body: good },
    answer: { accepted: 0, deduped: 1, warnings: [] },
  },
];

const tooOld = brokenRule(
  'timestamp_out_of_range',
  'More than 400 days ago',
  { ...event!, occurredAt: '2024-12-27T11:59:59Z' },
  'occurredAt',
  'occurredAt must be from 400 days before to 5 minutes after the receipt.',
);

/** Those of `POST /api/usage/events`, with the older bound. */
export const operatorProblems: Example[] = problems.map((problem) => {
  const example = problem.name === tooOld.name ? tooOld : problem;
  return { ...example, request: { ...example.request, params: acme } };
});
