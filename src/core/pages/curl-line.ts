/** Shows errors but no progress, and prints a line break after the response. */
const curl = `curl -sS -w '\\n'`;

export const postLine = (url: string, key: string, body: object, headers: Record<string, string> = {}) =>
  curlLine({
    method: 'POST',
    url,
    headers: { Authorization: `Bearer ${key}`, ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });

/** @param separator a line break needs a backslash before it */
export function curlLine(
  request: { method: string; url: string; headers: Record<string, string>; body: string },
  separator = ' ',
): string {
  const { method, url, headers, body } = request;
  const verb = method === (body === '' ? 'GET' : 'POST') ? '' : `-X ${method} `;
  return [
    `${curl} ${verb}${quote(url)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`),
    ...(body === '' ? [] : [`-d ${quote(body)}`]),
  ].join(separator);
}

export const readLine = (url: string, key: string): string =>
  `${curl} ${quote(url)} -H ${quote(`Authorization: Bearer ${key}`)}`;

const quote = (value: string): string =>
  /^[\w./:@%+=,-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
