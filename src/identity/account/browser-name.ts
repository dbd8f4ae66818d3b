import Bowser from 'bowser';

/** `Firefox on Windows`; the first word of what it calls itself where it is no browser that is known. */
export function describeBrowser(userAgent: string): string {
  if (userAgent === '') return 'Unknown browser';
  const { browser, os } = Bowser.parse(userAgent);
  const name = browser.name || userAgent.split(/[\s/(;]/)[0]!.slice(0, 40) || 'Unknown browser';
  return os.name ? `${name} on ${os.name}` : name;
}

/** An address as people write it: IPv4 without the IPv6 in which the socket wraps it. */
export const describeAddress = (ip: string): string => ip.replace(/^::ffff:(?=\d+\.)/i, '') || 'unknown';
