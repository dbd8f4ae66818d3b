import type { FuzzRequest } from './requests.js';

const MAX_SHOWN = 4_000;

export function toCurl(url: URL, { operation, path, headers, body }: FuzzRequest): string {
  const parts = ['curl', '-i', '--path-as-is', '-X', operation.method.toUpperCase()];
  for (const [name, value] of Object.entries(headers))
    parts.push('-H', quote(Buffer.from(`${name}: ${value}`, 'latin1')));
  if (body) parts.push('--data-binary', quote(body));
  return [...parts, quote(Buffer.from(url.origin + path))].join(' ');
}

/** Returns a command that sends bytes that curl itself would not send, through curl's telnet client. */
export const toCurlOfRaw = (url: URL, bytes: Buffer): string =>
  `printf %b ${quote(bytes).slice(1)} | curl -s telnet://${url.host}`;

/**
 * Returns `$'…'` with everything but visible ASCII escaped. Long texts are truncated; the seed and the request's number
 * reproduce them in full.
 */
function quote(bytes: Buffer): string {
  const shown = [...bytes.subarray(0, MAX_SHOWN)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      const isPlain = byte >= 0x20 && byte < 0x7f && character !== "'" && character !== '\\';
      return isPlain ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
  return `$'${shown}${bytes.length > MAX_SHOWN ? `…(${bytes.length} bytes)` : ''}'`;
}
