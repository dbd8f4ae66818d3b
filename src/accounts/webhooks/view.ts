import { isChat, type Format } from './chat.js';
import type { readDeliveries } from './request.js';
import type { EndpointRow, listDisabled } from './queries.js';

export const WEBHOOKS = '/dashboard/webhooks';

export const endpointAddress = (id: string): string => `${WEBHOOKS}/${id}`;

const badges = {
  waiting: { label: 'Waiting', tone: 'warn' },
  delivered: { label: 'Delivered', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
} as const;

const willRetry = { label: 'Will be retried', tone: 'warn' } as const;

export const deliveryStates = Object.entries(badges).map(([value, { label }]) => ({ value, label }));

const reasons = {
  gone: 'It responded with 410 Gone, so it was disabled.',
  failing: 'Every delivery failed for five days, so it was disabled.',
};

export const toDisabledView = ({ id, url, reason }: Awaited<ReturnType<typeof listDisabled>>[number]) => ({
  href: endpointAddress(id),
  url,
  reason: reasons[reason ?? 'failing'],
});

export function toEndpointView(endpoint: EndpointRow, nowMs: number, list = WEBHOOKS) {
  const { format, livemode, isEnabled, disabledReason, failingSince, previousSecretEndsAt } = endpoint;
  return {
    ...endpoint,
    href: `${list}/${endpoint.id}`,
    isChat: isChat(format),
    formatName: formatNames[format],
    mode: livemode ? 'live' : 'test',
    badge: isEnabled
      ? failingSince === null
        ? { label: 'Enabled', tone: 'good' }
        : { label: 'Failing', tone: 'bad' }
      : { label: 'Disabled', tone: disabledReason === null ? 'none' : 'bad' },
    reason: disabledReason === null ? undefined : reasons[disabledReason],
    failingSince: isEnabled ? failingSince : null,
    previousSecretEndsAt:
      previousSecretEndsAt !== null && previousSecretEndsAt.getTime() > nowMs ? previousSecretEndsAt : null,
  };
}

/** Indented, with all digits of the numbers. */
export function indentJson(json: string): string {
  let depth = 0;
  const turn = (by: number) => `\n${'  '.repeat((depth += by))}`;
  const indented = json.replaceAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]\s*/g, (found) => {
    const token = found.trim();
    if (token === '{' || token === '[') return `${token}${turn(1)}`;
    if (token === '}' || token === ']') return `${turn(-1)}${token}`;
    return token === ',' ? `,${turn(0)}` : token === ':' ? ': ' : token;
  });
  return indented.replaceAll(/([{[])\n\s*([}\]])/g, '$1$2');
}

export const toDeliveryView = (
  endpointId: string,
  row: Awaited<ReturnType<typeof readDeliveries>>['deliveries'][number],
) => ({
  ...row,
  href: `${endpointAddress(endpointId)}/deliveries/${row.messageId}`,
  mode: row.livemode ? 'live' : 'test',
  badge: row.status === 'waiting' && row.attempts > 0 ? willRetry : badges[row.status],
  answer: row.error ?? (row.statusCode === null ? undefined : String(row.statusCode)),
});

const formatNames: Record<Format, string> = {
  standard: 'Signed JSON',
  slack: 'Slack',
  discord: 'Discord',
  teams: 'Microsoft Teams',
};

export const formatChoices = [
  { value: 'standard', label: formatNames.standard, note: 'For a server, in the Standard Webhooks format.' },
  {
    value: 'slack',
    label: formatNames.slack,
    note: 'Posts to a channel. Create an “Incoming Webhook” in Slack.',
  },
  { value: 'discord', label: formatNames.discord, note: 'Posts to a channel: Integrations, then Webhooks.' },
  {
    value: 'teams',
    label: formatNames.teams,
    note: 'Posts to a channel: Workflows, then “Send webhook alerts”.',
  },
];

export const graceChoices = [
  { value: '0', label: 'None', note: 'The old secret ends at once, because it has leaked.' },
  { value: '60', label: '1 hour', note: undefined },
  { value: '1440', label: '1 day', note: 'Enough time to deploy the new secret.' },
  { value: '10080', label: '7 days', note: 'The maximum.' },
];

/** Hours. */
export const sinceChoices = [
  { value: '1', label: 'the last hour' },
  { value: '24', label: 'the last day' },
  { value: '168', label: 'the last 7 days' },
  { value: '720', label: 'the last 30 days' },
];
