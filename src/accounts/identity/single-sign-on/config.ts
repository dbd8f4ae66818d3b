import { z } from 'zod';
import { configPart, isSecureUrl } from '../../../core/config.js';
import { roles, type Role } from '../../organizations/table.js';

export interface SingleSignOnConfig {
  /** Must equal the `iss` of the issuer's tokens. */
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Shown on the button: `Sign in with …`. */
  name: string;
  scopes: string;
  /** Undefined if people get roles only from invitations. */
  roles: { claim: string; grants: RoleGrant[] } | undefined;
  /** Accepts addresses from tokens without `email_verified`. */
  trustsAddresses: boolean;
  /** Lets owners skip a required single sign-on while the issuer is down. */
  ownersWhenDown: boolean;
}

export interface RoleGrant {
  value: string;
  /** The Organization's slug. */
  organization: string;
  role: Role;
}

declare module '../../../core/config.js' {
  interface ServiceConfig {
    /** Undefined if only passwords and passkeys are accepted. */
    singleSignOn: SingleSignOnConfig | undefined;
  }
}

const grantShape = new RegExp(`^(.{1,200})=([a-z0-9][a-z0-9._-]{0,63}):(${roles.join('|')})$`);

const together = ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'];
const rolesTogether = ['OIDC_ROLES_CLAIM', 'OIDC_ROLES'];
const others = [
  'OIDC_NAME',
  'OIDC_SCOPES',
  'OIDC_TRUST_ADDRESSES',
  'OIDC_OWNERS_WHEN_DOWN',
  ...rolesTogether,
];

export const singleSignOnConfig = configPart(
  {
    OIDC_ISSUER: z
      .string()
      .refine(
        (value) => isSecureUrl(value) && !/[?#]/.test(value),
        'must be an https URL like https://login.example.com, without a query (http for this machine only)',
      )
      .optional(),
    OIDC_CLIENT_ID: z.string().optional(),
    OIDC_CLIENT_SECRET: z.string().optional(),
    OIDC_NAME: z.string().max(60, 'must have at most 60 characters').optional(),
    OIDC_SCOPES: z
      .string()
      .regex(/^(?=.*\bopenid\b)[\w:./-]+( [\w:./-]+)*$/, 'must be scopes separated by spaces, with openid')
      .default('openid email profile'),
    OIDC_ROLES_CLAIM: z.string().optional(),
    OIDC_ROLES: z
      .string()
      .transform((value, context) => readList(value) ?? refuseQuote(context))
      .pipe(z.array(z.string().regex(grantShape, 'must be value=organization:role, separated by commas')))
      .optional(),
    OIDC_TRUST_ADDRESSES: z.enum(['on', 'off']).default('off'),
    OIDC_OWNERS_WHEN_DOWN: z.enum(['on', 'off']).default('off'),
  },
  (e): { singleSignOn: SingleSignOnConfig | undefined } => ({
    singleSignOn:
      e.OIDC_ISSUER === undefined
        ? undefined
        : {
            issuer: e.OIDC_ISSUER,
            clientId: e.OIDC_CLIENT_ID!,
            clientSecret: e.OIDC_CLIENT_SECRET!,
            name: e.OIDC_NAME ?? new URL(e.OIDC_ISSUER).host,
            scopes: e.OIDC_SCOPES,
            roles: e.OIDC_ROLES && { claim: e.OIDC_ROLES_CLAIM!, grants: e.OIDC_ROLES.map(toGrant) },
            trustsAddresses: e.OIDC_TRUST_ADDRESSES === 'on',
            ownersWhenDown: e.OIDC_OWNERS_WHEN_DOWN === 'on',
          },
  }),
  (given) => [
    ...missingOf(given, together),
    ...missingOf(given, rolesTogether),
    ...(given.OIDC_ISSUER === undefined ? others : [])
      .filter((name) => given[name] !== undefined)
      .map((name) => `${name}: needs OIDC_ISSUER`),
  ],
);

function missingOf(given: Record<string, string | undefined>, names: string[]): string[] {
  const present = names.filter((name) => given[name] !== undefined);
  if (present.length === 0) return [];
  return names
    .filter((name) => given[name] === undefined)
    .map((name) => `${name}: is required with ${present[0]!}`);
}

/** Double quotes protect commas, and two quotes stand for one. Undefined if a quote is not closed. */
function readList(text: string): string[] | undefined {
  if (text.split('"').length % 2 === 0) return undefined;
  const parts = text.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/);
  return parts.map((part) => part.trim().replace(/"((?:[^"]|"")*)"/g, unquote));
}

const unquote = (_: string, text: string): string => text.replaceAll('""', '"');

function refuseQuote(context: z.RefinementCtx): never {
  context.addIssue('has a double quote that is not closed');
  return z.NEVER;
}

function toGrant(text: string): RoleGrant {
  const [, value, organization, role] = grantShape.exec(text)!;
  return { value: value!, organization: organization!, role: role as Role };
}
