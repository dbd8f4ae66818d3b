import { postLine } from '../../core/pages/curl-line.js';

export interface ExampleEvent {
  productSlug: string;
  metric: string;
  quantity: number;
  idempotencyKey: string;
}

export const sendEventLine = (baseUrl: string, key: string, event: ExampleEvent): string =>
  postLine(`${baseUrl}/api/usage/events`, key, { events: [event] });
