import type { ErrorCode } from '../errors.js';

/** Markdown; `/docs/errors` shows it. */
export interface Guide {
  meaning?: string;
  remedy?: string;
}

export type ErrorGuide = Partial<Record<ErrorCode, Guide>>;

export const commonGuide: ErrorGuide = {
  invalid_json: {
    meaning: 'The body is not JSON, or not UTF-8.',
    remedy: 'Correct the body. The same request will fail again.',
  },
  invalid_request: {
    meaning: "The body, a header or a parameter does not match the route's schema, or has an unknown field.",
    remedy:
      '`errors` lists every invalid place in the body as a JSON pointer. Correct them all; the same request will fail again.',
  },
  not_found: {
    meaning: 'Nothing exists at this address, or the caller may not see it.',
    remedy: 'Check the address and the id.',
  },
  method_not_allowed: {
    meaning: 'The address does not support the method of the request.',
    remedy: 'The `Allow` header lists the methods it supports.',
  },
  idempotency_conflict: {
    meaning: 'This idempotency key was already used for another request.',
    remedy: 'Use a new key for each new request. Reuse a key only to repeat the same request.',
  },
  request_timeout: {
    meaning: 'The headers did not arrive within 10 seconds, or the whole request within 30.',
    remedy: 'Repeat the request on a new connection; this one is closed.',
  },
  headers_too_large: {
    meaning: 'The headers of the request exceed 16 KiB in total.',
    remedy: 'Send fewer or shorter headers; a browser may have to delete cookies.',
  },
  body_too_large: {
    meaning: 'The body has more bytes than the route accepts.',
    remedy: 'Send smaller batches.',
  },
  batch_too_large: {
    meaning: 'The list has more items than the route accepts.',
    remedy: 'Split it into several requests.',
  },
  unsupported_media_type: {
    meaning: 'The body has a content type or a compression that the route does not accept.',
    remedy:
      'Send `Content-Type: application/json` in UTF-8, plain or with `Content-Encoding: gzip`, `deflate` or `br`. The sign-in takes a form.',
  },
  rate_limited: {
    meaning: 'Too many requests in the window of the limit.',
    remedy: 'Wait the number of seconds in `Retry-After`, then repeat the request unchanged.',
  },
  unavailable: {
    meaning:
      'The service is overloaded or stopping, or cannot reach its database. Whether a change was made is unknown.',
    remedy: 'Wait the number of seconds in `Retry-After`, then repeat the request unchanged.',
  },
  clock_off: {
    meaning:
      "The clock of this instance differs from the database's by more than a minute, so that it cannot say what is valid now. Nothing was changed.",
    remedy:
      'Repeat the request after the number of seconds in `Retry-After`; other instances answer meanwhile. The operator corrects the clock.',
  },
  internal: {
    meaning: 'An internal error of the service.',
    remedy: 'Report the `requestId`.',
  },
};

/** If several guides explain the same code, their sentences are concatenated in order. */
export function joinGuides(guides: readonly ErrorGuide[]): Record<ErrorCode, Required<Guide>> {
  const joined: Record<string, Required<Guide>> = {};
  for (const [code, { meaning, remedy }] of guides.flatMap((guide) => Object.entries(guide))) {
    const known = joined[code];
    joined[code] = { meaning: join(known?.meaning, meaning), remedy: join(known?.remedy, remedy) };
  }
  return joined;
}

const join = (...sentences: (string | undefined)[]): string => sentences.filter(Boolean).join(' ');
