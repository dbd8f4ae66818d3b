/** Shows errors but no progress, and ends the answer's line. */
const curl = `curl -sS -w '\\n'`;

export const postLine = (
  url: string,
  key: string,
  body: object,
  headers: Record<string, string> = {},
): string =>
  curlLine({
    method: 'POST',
    url,
    headers: { Authorization: `Bearer ${key}`, ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });

export function curlLine(request: {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}): string {
  const { method, url, headers, body } = request;
  return [
    curl,
    // Omits the method where it is curl's default.
    ...(method === (body === '' ? 'GET' : 'POST') ? [] : [`-X ${method}`]),
    quote(url),
    ...Object.entries(headers).map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`),
    ...(body === '' ? [] : [`-d ${quote(body)}`]),
  ].join(' ');
}

export const readLine = (url: string, key: string): string =>
  `${curl} ${quote(url)} -H ${quote(`Authorization: Bearer ${key}`)}`;

const quote = (value: string): string =>
  /^[\w./:@%+=,-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
