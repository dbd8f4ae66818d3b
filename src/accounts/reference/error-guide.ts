import type { ErrorGuide } from '../../core/reference/error-guide.js';

export const errorGuide: ErrorGuide = {
  session_cookie_not_allowed: {
    meaning: 'An API-key route was called with a session cookie.',
    remedy: 'Send the key without cookies; in a browser, call without credentials (`credentials: "omit"`).',
  },
  key_in_query_string: {
    meaning: 'The URL seems to contain a key. URLs are stored in logs and browser histories.',
    remedy:
      'Send the key in the `Authorization` header. If it was a real key, rotate it: it may have been logged on the way.',
  },
  missing_key: {
    meaning: 'The request has no `Authorization` header.',
    remedy: 'Send `Authorization: Bearer` followed by the API key; on operator routes, the operator token.',
  },
  invalid_key: {
    meaning:
      'The `Authorization` header does not contain an existing key; on operator routes, the operator token.',
    remedy:
      'Check that the whole secret was copied. A lost secret cannot be shown again: rotate the key or create another.',
  },
  key_expired: {
    meaning: 'The key has expired, or the grace period after its rotation has ended.',
    remedy: "Use the key's successor, or create a new key.",
  },
  key_revoked: {
    meaning:
      'The key was revoked, which cannot be undone, or its Organization was archived. `detail` says which.',
    remedy: 'Create a new key, or ask the operator of the service to restore the Organization.',
  },
  not_signed_in: {
    meaning:
      'There is no session, or it has ended: the person signed out, the session expired, or the password or membership changed. In response to a sign-in: the address or the password is wrong, or the second factor is still required.',
    remedy: 'Sign in.',
  },
  insufficient_scope: {
    meaning: 'The key is valid but does not have the scope that this route requires.',
    remedy: 'Use a key with that scope. The scopes of a key never change.',
  },
  forbidden_role: {
    meaning:
      'The signed-in person may not do this in this Organization (changing keys requires an owner or an admin), or belongs to no Organization.',
    remedy: 'Ask an owner or an admin of the Organization.',
  },
  cross_site_request: {
    meaning: 'A browser sent this change from another site.',
    remedy:
      "Send it from the service's own pages, or from a program that sends neither `Sec-Fetch-Site` nor `Origin`.",
  },
  key_not_active: {
    meaning: 'A revoked or expired key cannot be rotated.',
    remedy: 'Create a new key.',
  },
  key_already_rotated: {
    meaning: 'The key already has a successor and is in its grace period.',
    remedy: 'Use or rotate the successor.',
  },
};
