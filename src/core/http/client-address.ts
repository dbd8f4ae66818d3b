import type { Express, Request } from 'express';

const address = Symbol('client address');

/**
 * Lets `req.ip` be worked out once per request. The log, the limits and the audit each ask for it, and Express would
 * read the forwarding headers every time.
 */
export function rememberClientAddress(app: Express): void {
  const express = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(app.request), 'ip')!;
  Object.defineProperty(app.request, 'ip', {
    configurable: true,
    enumerable: true,
    get(this: Request & { [address]?: string | undefined }) {
      // Without a trusted proxy the headers do not matter.
      return (this[address] ??=
        app.get('trust proxy') === false
          ? this.socket.remoteAddress
          : (express.get!.call(this) as string | undefined));
    },
  });
}
