export const responseHeaders = {
  'X-Request-Id': {
    required: true,
    description:
      "Identifies this request in the service's log. The caller's `X-Request-Id` is used if it has 1 to 64 letters, digits or `_ . : -`; otherwise the service creates one.",
    schema: { type: 'string', minLength: 1, maxLength: 64 },
  },
  RateLimit: {
    description:
      'The remaining requests, and the seconds until the limit resets (IETF draft, version 8): `"name"; r=599; t=60`.',
    schema: { type: 'string' },
  },
  'RateLimit-Policy': {
    description: 'The limit itself: `"name"; q=600; w=60` allows 600 requests in a window of 60 seconds.',
    schema: { type: 'string' },
  },
  'Retry-After': {
    required: true,
    description: 'Seconds to wait before the same request may succeed.',
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': {
    required: true,
    description: 'How to authenticate: `Bearer`.',
    schema: { type: 'string' },
  },
  'Preference-Applied': {
    description: '`handling=lenient` where the request preferred it.',
    schema: { type: 'string' },
  },
  Location: {
    required: true,
    description: 'Where the client is redirected.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  'Set-Cookie': {
    description: 'The session cookie: opaque, `HttpOnly`, `SameSite=Lax`, and `Secure` over https.',
    schema: { type: 'string' },
  },
  ETag: {
    required: true,
    description: 'Identifies this version of the response. Send it back as `If-None-Match`.',
    schema: { type: 'string' },
  },
} as const;

export type ResponseHeader = keyof typeof responseHeaders;
