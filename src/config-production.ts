import { isIP } from 'node:net';

type Environment = Record<string, string | undefined>;

/** What production asks of the environment besides the form of each value: nothing that protects has a fallback there. */
export function productionProblems(env: Environment): string[] {
  return [...keyProblems(env), ...proxyProblems(env), ...addressProblems(env)];
}

function keyProblems(env: Environment): string[] {
  return ['SESSION_KEYS', 'SECRET_KEYS'].flatMap((name) => {
    const keys = env[name]?.split(',') ?? [];
    if (keys.length === 0)
      return [`${name}: is required in production (make one with: openssl rand -hex 32)`];
    return keys.some((key) => key.trim().length < 16)
      ? [`${name}: each key must have 16 characters or more in production`]
      : [];
  });
}

function proxyProblems({ TRUST_PROXY, PUBLIC_URL }: Environment): string[] {
  const problems: string[] = [];
  if (TRUST_PROXY === undefined)
    problems.push(
      'TRUST_PROXY: must be said in production: how many proxies stand in front, 0 for none. Limits count by the address that it tells',
    );
  if (PUBLIC_URL === undefined)
    problems.push('PUBLIC_URL: is required in production: where people reach the service, for links');
  else if (isPlain(PUBLIC_URL) && !isLoopback(PUBLIC_URL))
    problems.push('PUBLIC_URL: must be https in production: people sign in there');
  return problems;
}

/** Every address in the environment: credentials, prices and weather that money depends on pass over them. */
function addressProblems(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (!name.endsWith('_URL') || name === 'PUBLIC_URL' || !URL.canParse(value) || isLoopback(value))
      return [];
    const { protocol, hostname, password, searchParams } = new URL(value);
    if (/^(http|ws):$/.test(protocol))
      return [
        `${name}: must be ${protocol === 'ws:' ? 'wss' : 'https'} in production, except to this machine`,
      ];
    if (isNeighbour(hostname)) return [];
    if (
      /^postgres(ql)?:$/.test(protocol) &&
      !/^(require|verify-ca|verify-full)$/.test(searchParams.get('sslmode') ?? '')
    )
      return [`${name}: must have sslmode=verify-full in production, except to this machine`];
    if (protocol === 'redis:') return [`${name}: must be rediss in production, except to this machine`];
    if (protocol === 'rediss:' && password === '') return [`${name}: must have a password in production`];
    return [];
  });
}

const isPlain = (url: string): boolean => URL.canParse(url) && new URL(url).protocol === 'http:';

function isLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return (
    hostname === '' || hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  );
}

/** A name without a dot is one of the same machine's containers: what is sent there does not leave it. */
const isNeighbour = (hostname: string): boolean =>
  !hostname.includes('.') && !hostname.startsWith('[') && isIP(hostname) === 0;
