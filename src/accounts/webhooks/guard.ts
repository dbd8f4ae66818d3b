import { promises, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import ipaddr from 'ipaddr.js';

export interface ReceiverRules {
  /** Refuses receivers on the local machine and over plain HTTP. */
  production: boolean;
  allowsPrivate: boolean;
}

export class ForbiddenAddressError extends Error {
  readonly code = 'FORBIDDEN_ADDRESS';
}

/**
 * Metadata services hand out credentials. Lists those in ranges that are public or can be allowed; others, such as
 * Oracle's 192.0.0.192, are refused anyway.
 */
const metadata = new Set([
  // Azure
  '168.63.129.16',
  // Alibaba Cloud
  '100.100.100.200',
  'fd00:100::100:200',
  // AWS: instances and EKS pods
  'fd00:ec2::254',
  'fd00:ec2::23',
  // Google Cloud
  'fd20:ce::254',
  // Oracle Cloud
  'fd00:c1::a9fe:a9fe',
  // Scaleway
  'fd00:42::42',
  // Akamai
  'fd00:a9fe:a9fe::1',
]);

/** The only IPv6 range for global unicast. The library also calls ranges without a name `unicast`. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

function rangeOf(address: string): string {
  if (!ipaddr.isValid(address)) return 'reserved';
  // An IPv4 address embedded in IPv6 is checked as IPv4.
  const parsed = ipaddr.process(address);
  if (metadata.has(parsed.toString())) return 'reserved';
  const range = parsed.range();
  const isOdd = range === 'unicast' && parsed instanceof ipaddr.IPv6 && !parsed.match(globalUnicast);
  return isOdd ? 'reserved' : range;
}

/** @param isPlain http, which may reach only the local machine */
function mayReach(address: string, isPlain: boolean, { production, allowsPrivate }: ReceiverRules): boolean {
  const range = rangeOf(address);
  if (range === 'loopback') return !production;
  if (isPlain) return false;
  return (
    range === 'unicast' || (allowsPrivate && ['private', 'uniqueLocal', 'carrierGradeNat'].includes(range))
  );
}

const sayHttps = ({ production }: ReceiverRules): string =>
  `must begin with “https://”${production ? '' : ' or be http://localhost'}`;

/** Undefined if the URL is acceptable. */
export function whyNoReceiver(text: string, rules: ReceiverRules): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL like https://example.com/webhooks';
  const { protocol, hostname, username, password, hash } = new URL(text);
  if (!/^https?:$/.test(protocol)) return sayHttps(rules);
  if (username + password !== '') return 'must not contain a user name or password';
  if (hash !== '') return 'must not have a fragment';
  const host = toHost(hostname);
  const isPlain = protocol === 'http:';
  if (isPlain && (rules.production || (isIP(host) === 0 && host !== 'localhost'))) return sayHttps(rules);
  if (isIP(host) !== 0 && !mayReach(host, isPlain, rules))
    return isPlain ? sayHttps(rules) : 'must not be a private or reserved address';
  return undefined;
}

/** The URL parser has already normalized IPv4 addresses to dotted decimals. */
const toHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, '');

/**
 * Resolves while connecting, so the checked address is the one connected to. One refused address refuses all, because
 * the connection may pick any.
 */
export function guardedLookup(isPlain: boolean, rules: ReceiverRules): LookupFunction {
  const resolver = new promises.Resolver({ timeout: LOOKUP_MS, tries: 2 });
  const resolve = callbackify((hostname: string) => resolveName(resolver, hostname));
  return (hostname, { all }, callback) =>
    resolve(hostname, (error: NodeJS.ErrnoException | null, addresses) => {
      if (error) callback(error, '');
      else if (addresses.some(({ address }) => !mayReach(address, isPlain, rules)))
        callback(new ForbiddenAddressError('The host name resolves to a private or reserved address.'), '');
      else if (all) callback(null, addresses);
      else callback(null, addresses[0]!.address, addresses[0]!.family);
    });
}

const LOOKUP_MS = 2_000;

/** The system resolver would block one of only a few threads until the name server answers, if it ever does. */
async function resolveName(resolver: promises.Resolver, hostname: string): Promise<LookupAddress[]> {
  if (hostname === 'localhost') return promises.lookup(hostname, { all: true });
  const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
  const addresses = answers.flatMap((answer, i) =>
    answer.status === 'fulfilled'
      ? answer.value.map((address) => ({ address, family: i === 0 ? 4 : 6 }))
      : [],
  );
  if (addresses.length > 0) return addresses;
  const codes = answers.map((answer) =>
    answer.status === 'rejected' ? (answer.reason as NodeJS.ErrnoException).code : undefined,
  );
  const isUnknown = codes.every((code) => code === 'ENOTFOUND' || code === 'ENODATA');
  throw Object.assign(new Error('no address'), { code: isUnknown ? 'ENOTFOUND' : 'EAI_AGAIN' });
}
