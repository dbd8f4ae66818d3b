import type { Agent } from 'node:https';
import { HttpsProxyAgent } from 'https-proxy-agent';
import { getProxyForUrl } from 'proxy-from-env';
import { ConfigError, proxyField } from '../config.js';

/** A proxy cannot reach this machine by these names. */
const ownNames = ['localhost', '127.0.0.1', '::1', '[::1]'];

/**
 * Each thread has a `fetch` of its own. Loads the library only if it is needed.
 * @throws ConfigError
 */
export async function useProxies(): Promise<void> {
  const { env } = process;
  const http = readProxy('http_proxy');
  const https = readProxy('https_proxy') ?? http;
  // The two libraries read the variables differently: one knows ALL_PROXY, and one uses HTTP_PROXY for https.
  for (const name of ['all_proxy', 'ALL_PROXY']) delete env[name];
  if (https === undefined) return;
  env.http_proxy = http ?? '';
  env.https_proxy = https;
  const direct = (env.no_proxy || env.NO_PROXY || '').split(/[,\s]+/);
  env.no_proxy = direct.includes('*') ? '*' : [...direct.flatMap(withSubdomains), ...ownNames].join(',');
  const { EnvHttpProxyAgent, setGlobalDispatcher } = await import('undici');
  // A proxy may refuse to open tunnels to port 80.
  setGlobalDispatcher(new EnvHttpProxyAgent({ proxyTunnel: false }));
}

const withSubdomains = (entry: string): string[] => {
  const name = entry.replace(/^\*?\./, '');
  return name === '' ? [] : [name, `.${name}`];
};

/** With `http://` if the variable names no scheme. */
function readProxy(name: 'http_proxy' | 'https_proxy'): string | undefined {
  const value = process.env[name] || process.env[name.toUpperCase()];
  if (!value) return undefined;
  const url = value.includes('://') ? value : `http://${value}`;
  const { error } = proxyField.safeParse(url);
  if (error) throw new ConfigError([`${name.toUpperCase()}: ${error.issues[0]!.message}`]);
  return url;
}

export const findProxy = (url: string): string | undefined =>
  getProxyForUrl(url.replace(/^\w+:/, 'https:')) || undefined;

/** Undefined without a proxy. */
export function proxyAgent(url: string, options: object = {}): Agent | undefined {
  const proxy = findProxy(url);
  return proxy === undefined ? undefined : new HttpsProxyAgent(proxy, options);
}

/** Names the proxy for the address in a message, without its password: ` through the proxy host:port`, or nothing. */
export function describeProxy(url: string): string {
  const proxy = getProxyForUrl(url);
  return proxy ? ` through the proxy ${new URL(proxy).host}` : '';
}
