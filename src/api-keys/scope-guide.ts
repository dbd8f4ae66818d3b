import { scopes, type Scope } from '../core/scopes.js';

/** What each scope allows, in a line for whoever chooses. */
const allows: Record<Scope, string> = {
  'usage:write': 'Send usage events. For runtimes that report what they used.',
  'entitlements:read': 'Read and check entitlements: what the Organization may use, and how much is left.',
  'trading:read': 'Read the Organization’s portfolio and its trades.',
  'trading:write': 'Place orders for the Organization. Give it to nothing else than a trading client.',
};

export const scopeGuide = scopes.map((scope) => ({ scope, allows: allows[scope] }));
