import { existsSync } from 'node:fs';
import type { Browser } from 'playwright-core';

/**
 * Debian's Chromium or the one that TEST_CHROMIUM names; undefined where there is none. First the one without windows: it shows
 * pages as the other does, in a fifth less time.
 */
export function findChromium(): string | undefined {
  const candidates = [process.env.TEST_CHROMIUM, '/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
  return candidates.find((path) => path !== undefined && existsSync(path));
}

/** Works as root and without a graphics card, and asks nothing but the pages under test. */
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-site-isolation-trials',
  // A page is looked at for moments: to optimize its scripts takes longer than they run.
  '--js-flags=--no-maglev --no-turbofan --single-threaded-gc',
];

export async function launchChromium(): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium was found; install Debian’s package `chromium` or set TEST_CHROMIUM.');
  // Large, and needed by these tests only.
  const playwright = await import('playwright-core');
  return playwright.chromium.launch({ executablePath, args: flags });
}

let chromium: Promise<Browser> | undefined;

/** The one of all test files of a process, with which it ends: to start one takes two seconds of a processor. */
export const sharedChromium = (): Promise<Browser> => (chromium ??= launchChromium());
