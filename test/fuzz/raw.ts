import fc from 'fast-check';

const starts = [
  'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /markets?station=KNYC HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n',
  'POST /api/usage/events HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
  'POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n0\r\n\r\n',
  'PUT /operator/products/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}',
  'GET /dashboard HTTP/1.1\r\nHost: a\r\nCookie: gauge_session=x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
  'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET http://elsewhere.example/markets HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET //markets/..//%2e%2e/ HTTP/1.0\r\n\r\n',
];
const pieces = [
  '\0',
  '\r\n',
  '\r\n\r\n',
  ' ',
  ':',
  '\x80\xff',
  '0\r\n\r\n',
  'Content-Length: 5\r\n',
  'x'.repeat(20_000),
];

/** HTTP requests with parts replaced, cut off, duplicated or inserted. */
export const anyRaw: fc.Arbitrary<Buffer> = fc
  .tuple(
    fc.constantFrom(...starts),
    fc.array(fc.tuple(fc.nat(400), fc.nat(4), fc.constantFrom(...pieces)), { maxLength: 4 }),
  )
  .map(([start, changes]) => {
    let text = start;
    for (const [place, kind, piece] of changes) {
      const at = place % (text.length + 1);
      if (kind === 0) text = text.slice(0, at) + piece + text.slice(at);
      else if (kind === 1) text = text.slice(0, at) + piece + text.slice(at + piece.length);
      else if (kind === 2) text = text.slice(0, at);
      else if (kind === 3) text = (text + text).slice(0, 60_000);
      else text = text.slice(0, at) + String.fromCharCode(place % 256) + text.slice(at + 1);
    }
    return Buffer.from(text, 'latin1');
  });
