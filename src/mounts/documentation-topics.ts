import type { Reference } from '../core/reference/described.js';

interface Topic {
  title: string;
  summary: string;
  task: string;
  /** The page is hidden if the service does not have it. */
  operationId?: string;
}

/** In reading order. The key is the last part of the URL. */
export const topics: Record<string, Topic> = {
  start: {
    title: 'Five-minute start',
    summary: 'Create a key, send an event and see the result.',
    task: 'Start',
    operationId: 'recordUsageEvents',
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
  caps: {
    title: 'Caps and warnings',
    summary: 'What happens near and above the cap.',
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  'key-rotation': {
    title: 'Rotating keys',
    summary: 'Replace a key while your runtimes keep running.',
    task: 'Manage keys',
  },
  'paper-trading': {
    title: 'Paper trading',
    summary: 'Trade weather markets with paper money.',
    task: 'Trade',
    operationId: 'placeOrder',
  },
  webhooks: {
    title: 'Webhook messages',
    summary: 'Every message that your endpoints receive.',
    task: 'React to messages',
  },
  errors: { title: 'Errors', summary: 'Every code and how to fix it.', task: 'Fix an error' },
};

export const listTopics = ({ routes }: Reference) =>
  Object.entries(topics)
    .filter(
      ([, { operationId }]) =>
        operationId === undefined || routes.some((route) => route.operationId === operationId),
    )
    .map(([id, topic]) => ({ id, ...topic }));
