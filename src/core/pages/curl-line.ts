/** Shows errors but no progress, and ends the answer's line. */
const curl = `curl -sS -w '\\n'`;

export interface ExampleEvent {
  productSlug: string;
  metric: string;
  quantity: number;
  idempotencyKey: string;
}

export const sendEventLine = (baseUrl: string, key: string, event: ExampleEvent): string =>
  postLine(`${baseUrl}/api/usage/events`, key, { events: [event] });

/** A line for a shell that posts JSON with an API key. */
export const postLine = (
  url: string,
  key: string,
  body: object,
  headers: Record<string, string> = {},
): string =>
  [
    `${curl} ${quote(url)}`,
    ...Object.entries({
      Authorization: `Bearer ${key}`,
      ...headers,
      'Content-Type': 'application/json',
    }).map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`),
    `-d ${quote(JSON.stringify(body))}`,
  ].join(' ');

/** A line for a shell that reads the entitlements. */
export const readEntitlementsLine = (baseUrl: string, key: string): string =>
  readLine(`${baseUrl}/api/entitlements`, key);

/** A line for a shell that reads what an API key may read. */
export const readLine = (url: string, key: string): string =>
  `${curl} ${quote(url)} -H ${quote(`Authorization: Bearer ${key}`)}`;

/** One word for a shell. What needs no quotes gets none. */
const quote = (value: string): string =>
  /^[\w./:@%+=,-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
