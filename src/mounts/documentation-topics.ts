import type { Reference } from '../core/reference/described.js';

interface Topic {
  title: string;
  summary: string;
  task: string;
  /** Other words that readers search for. */
  words?: string[];
  /** The page is hidden if the service does not have it. */
  operationId?: string;
}

/** In reading order. The key is the last part of the URL. */
export const topics: Record<string, Topic> = {
  start: {
    title: 'Five-minute start',
    summary: 'Create a key, send an event and see the result.',
    words: ['quickstart', 'install', 'SDK', 'client', 'Python', 'TypeScript', 'Node'],
    task: 'Start',
    operationId: 'recordUsageEvents',
  },
  'meter-your-api': {
    title: 'Meter your own API',
    summary: 'Verify your customers’ keys, ask, meter and bill. With middleware.',
    words: [
      'verify key',
      'authenticate',
      'gateway',
      'Express',
      'FastAPI',
      'Flask',
      'Django',
      'invoice',
      'billing',
    ],
    task: 'Start',
    operationId: 'verifyKey',
  },
  'test-and-live': {
    title: 'Test and live',
    summary: 'Try everything without changing live totals.',
    task: 'Start',
    operationId: 'recordUsageEvents',
  },
  retries: {
    title: 'Retries and idempotency',
    summary: 'Retry without counting twice.',
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  files: {
    title: 'Files',
    summary: 'Send CSV, JSON and exports of other programs.',
    words: ['CSV', 'import', 'upload', 'backfill'],
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  migrate: {
    title: 'Coming from another system',
    summary: 'Move from OpenMeter, Lago, Stripe meters or Unkey.',
    words: ['migrate', 'migration', 'switch', 'replace', 'Lago', 'Stripe meters', 'Unkey'],
    task: 'Send usage',
    operationId: 'verifyKey',
  },
  cloudevents: {
    title: 'CloudEvents',
    summary: 'Send CloudEvents as they are.',
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  subjects: {
    title: 'Subjects and dimensions',
    summary: 'Count by end user, model or region.',
    words: ['end user', 'team', 'tenant', 'model', 'group by', 'tag'],
    task: 'Send usage',
    operationId: 'readUsage',
  },
  corrections: {
    title: 'Corrections',
    summary: 'Change or void what was counted wrongly.',
    words: ['undo', 'refund', 'void', 'delete event'],
    task: 'Send usage',
    operationId: 'correctCustomerUsage',
  },
  'check-or-reserve': {
    title: 'Check or reserve?',
    summary: 'Which of the two keeps a limit.',
    words: ['reservation', 'hold', 'parallel', 'concurrency', 'race'],
    task: 'Limit and charge',
    operationId: 'reserveUsage',
  },
  caps: {
    title: 'Caps and warnings',
    summary: 'What happens near and above the cap.',
    task: 'Limit and charge',
    operationId: 'recordUsageEvents',
  },
  limits: {
    title: 'Limits that block',
    summary: 'Calendar and rolling windows, also per end user.',
    words: ['quota', 'rate limit', 'hard limit', 'rolling window'],
    task: 'Limit and charge',
    operationId: 'putGrant',
  },
  credits: {
    title: 'Credits',
    summary: 'Prices, grants, the balance and overdrafts.',
    words: ['prepaid', 'price', 'grant', 'balance', 'overdraft', 'wallet'],
    task: 'Limit and charge',
    operationId: 'readCredits',
  },
  plans: {
    title: 'Plans',
    summary: 'The same entitlements and credits for many customers.',
    words: ['trial', 'subscription', 'upgrade', 'downgrade', 'tier'],
    task: 'Customers and keys',
    operationId: 'putPlan',
  },
  portal: {
    title: 'Portal',
    summary: 'Embed a customer’s usage in your own product.',
    words: ['embed', 'iframe', 'white label'],
    task: 'Customers and keys',
    operationId: 'createPortalSession',
  },
  'key-rotation': {
    title: 'Rotating keys',
    summary: 'Replace a key while your runtimes keep running.',
    task: 'Customers and keys',
  },
  'webhook-signatures': {
    title: 'Webhooks: verify a signature',
    summary: 'Accept only messages that Gauge has sent.',
    words: ['HMAC', 'authenticate'],
    task: 'React to messages',
  },
  webhooks: {
    title: 'Webhook messages',
    summary: 'Every message that your endpoints receive.',
    task: 'React to messages',
  },
  'paper-trading': {
    title: 'Paper trading',
    summary: 'Trade weather markets with paper money.',
    task: 'Trade',
    operationId: 'placeOrder',
  },
  pages: {
    title: 'Pages of results',
    summary: 'Read a long list page by page.',
    words: ['pagination', 'cursor', 'next page'],
    task: 'Read responses',
    operationId: 'listCreditEntries',
  },
  errors: { title: 'Errors', summary: 'Every code and how to fix it.', task: 'Read responses' },
};

export const listTopics = ({ routes }: Reference) =>
  Object.entries(topics)
    .filter(
      ([, { operationId }]) =>
        operationId === undefined || routes.some((route) => route.operationId === operationId),
    )
    .map(([id, topic]) => ({ id, ...topic }));
