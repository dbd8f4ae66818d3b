import type { Agent } from 'node:https';
import { HttpsProxyAgent } from 'https-proxy-agent';
import { getProxyForUrl } from 'proxy-from-env';

/** A proxy cannot reach this machine by these names. */
const ownNames = ['localhost', '127.0.0.1', '::1', '[::1]'];

/** Each thread has a `fetch` of its own. Loads the library only if it is needed. */
export async function useProxies(): Promise<void> {
  const { env } = process;
  if (![env.http_proxy, env.HTTP_PROXY, env.https_proxy, env.HTTPS_PROXY].some(Boolean)) return;
  const except = env.no_proxy || env.NO_PROXY || '';
  if (except !== '*') env.no_proxy = [except, ...ownNames].filter(Boolean).join(',');
  const { EnvHttpProxyAgent, setGlobalDispatcher } = await import('undici');
  // A proxy may refuse to open tunnels to port 80.
  setGlobalDispatcher(new EnvHttpProxyAgent({ proxyTunnel: false }));
}

/** Undefined without a proxy. */
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
