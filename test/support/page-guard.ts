import type { BrowserContext, ConsoleMessage, Page } from 'playwright-core';

export interface PageGuard {
  complaints(): Promise<string[]>;
}

/**
 * Logs the directive of each CSP violation, which the browser's own message omits. Runs in every document before the
 * document's own scripts.
 */
const reportViolations = `document.addEventListener('securitypolicyviolation', (event) =>
  console.error('CSP: ' + event.effectiveDirective + ' blocks ' + (event.blockedURI || event.sample)));`;

const measureOverflow = `(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth > clientWidth ? scrollWidth + ' px of content in ' + clientWidth + ' px' : '';
})()`;

/**
 * Watches all pages of a browser context. A page must not log an error or a warning, throw, violate the content
 * security policy, open a dialog, contact another host, get a status of 500 or more, or scroll sideways.
 */
export async function guardPages(
  context: BrowserContext,
  origin: string,
  issuer?: string,
): Promise<PageGuard> {
  const complaints: string[] = [];
  const logged: { message: ConsoleMessage; text: string }[] = [];
  /**
   * URLs of documents that got a response, also to a script that shows them in place. Chromium logs an error for a status of 400 or more, which may be expected.
   */
  const documents = new Set<string>();
  const measured: Promise<void>[] = [];

  const measure = async (page: Page) => {
    // If the page has already navigated away, there is nothing to measure.
    const overflow = await page.evaluate<string>(measureOverflow).catch(() => '');
    if (overflow) complaints.push(`${page.url()} scrolls sideways: ${overflow}`);
  };

  await context.addInitScript(reportViolations);
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      logged.push({ message, text: `${message.page()?.url() ?? ''} logs: ${message.text()}` });
  });
  context.on('weberror', (webError) =>
    complaints.push(`${webError.page()?.url() ?? ''} throws: ${String(webError.error().stack)}`),
  );
  context.on('dialog', (dialog) => {
    complaints.push(`${dialog.page()?.url() ?? ''} opens a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('request', (request) => {
    const { protocol, origin: asked } = new URL(request.url());
    if (protocol !== 'data:' && protocol !== 'blob:' && asked !== origin && asked !== issuer)
      complaints.push(`a page asks another host: ${request.url()}`);
  });
  context.on('response', (response) => {
    const request = response.request();
    if (request.isNavigationRequest() || request.headers()['accept'] === 'text/html')
      documents.add(response.url());
    if (response.status() >= 500) complaints.push(`${response.url()} answers ${response.status()}`);
  });
  context.on('page', (page) => page.on('load', () => measured.push(measure(page))));

  return {
    async complaints() {
      await Promise.all(measured);
      await Promise.all(context.pages().map(measure));
      const isExpected = ({ message }: (typeof logged)[number]) =>
        /^Failed to load resource: .* status of 4\d\d/.test(message.text()) &&
        documents.has(message.location().url);
      return [
        ...new Set([...complaints, ...logged.filter((line) => !isExpected(line)).map(({ text }) => text)]),
      ];
    },
  };
}
