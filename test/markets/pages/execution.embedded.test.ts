import { beforeAll, describe, expect, it } from 'vitest';
import { signedIn } from '../../support/accounts.js';
import { seedExecution } from '../support/execution-page.js';
import { useService } from '../../support/use.js';

const PAGE = '/dashboard/scores/execution';

const { database, service } = useService();
let orgId: string;
let see: (path?: string) => Promise<{ status: number; main: string; words: string }>;
beforeAll(async () => {
  service.clock.set('2026-11-21T15:00:00Z');
  const person = await signedIn(database.db, service.url, 'billing');
  orgId = person.organization.id;
  see = async (path = PAGE) => {
    const { status, text } = await person.browser.get(path, { accept: 'text/html' });
    const main = text.slice(text.indexOf('<main'), text.indexOf('</main>'));
    return { status, main, words: main.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ') };
  };
});

describe('the execution page', () => {
  it('is linked from the scores, and explains what it will show while there are no fills', async () => {
    const scores = await see('/dashboard/scores');
    expect(scores.main).toContain(`<a href="${PAGE}">Execution</a>`);
    const { status, main, words } = await see();
    expect(status).toBe(200);
    expect(main).toContain(`<a href="${PAGE}" aria-current="true">Execution</a>`);
    expect(words).toContain('Nothing to compare on these days Each fill is checked a minute later');
  });

  it('shows fills, those that would have missed, and live orders beside paper', async () => {
    await seedExecution(service, orgId);
    const { words } = await see();
    expect(words).toContain(
      'Paper 5 50 $0.87 2 of 4 checked 1 not checkable not known +1.00¢ of 5 fills +2.00¢ of 5 fills',
    );
    expect(words).toContain(
      'Paper, near the extreme 1 20 $0.35 0 of 1 checked not known +1.00¢ of 1 fill +2.00¢ of 1 fill',
    );
    expect(words).toContain('Live 2 14 $0.24 not checked not known +0.71¢ of 2 fills +1.71¢ of 2 fills');
    expect(words).toContain(
      'Paper: 60 seconds after a fill, the price has moved 2¢ in favour of the order on average; 50% of the checked fills would have missed.',
    );
    // 50 · 2¢ − $0.87; two of the five fills would have missed.
    expect(words).toContain('Paper, for a minute 5 fills +$0.13 +$0.05 +$0.08');
    expect(words).not.toContain('Paper, to the end');
    expect(words).toContain('3 live orders');
    expect(words).toContain('median response time was 210 ms');
    expect(words).toContain('Live 14 $0.24');
    expect(words).toContain('Paper 30 $0.52');
    expect(words).toMatch(/10 at 45¢ 10 at 45¢ The same 47¢/);
    expect(words).toMatch(/4 at 46¢ 10 at 45¢ 6 contracts fewer live, 1¢ per contract worse 47¢/);
    expect(words).toMatch(/Nothing 10 at 45¢ 10 contracts fewer live 47¢/);
    expect(words).toContain('40° to 41°');
    // The venue has 12, 16 and 22 contracts ahead; the paper queue has 10.
    expect(words).toContain(
      'Compared 3 queue positions of 3 live orders Median error 6 contracts 90% error 10.8 contracts Correction None yet needs 30 live orders; 3 so far',
    );
  });

  it('covers the requested days', async () => {
    expect((await see()).main).toMatch(/name="from"[^>]*value="15 Nov 2026"/);
    expect((await see(`${PAGE}?from=2026-11-21&to=2026-11-21`)).words).toContain('3 live orders');
    const named = await see(`${PAGE}?from=yesterday&to=21+Nov+2026`);
    expect(named.main).toMatch(/name="from"[^>]*value="20 Nov 2026"/);
    expect(named.words).toContain('3 live orders');
    expect((await see(`${PAGE}?from=&to=2026-11-20`)).words).toContain('Nothing to compare on these days');
    for (const [wrong, why] of [
      ['from=2026-11-22&to=2026-11-21', 'must not be after'],
      ['from=2026-01-01&to=2026-11-21', 'must be within 92 days'],
      ['from=soon', 'must be a day'],
      ['to=2026-11-21&to=2026-11-20', 'must appear only once'],
    ] as const) {
      const { status, words } = await see(`${PAGE}?${wrong}`);
      expect([status, words.toLowerCase().includes(why)], wrong).toEqual([400, true]);
    }
  });

  it('shows nothing of another Organization', async () => {
    const other = await signedIn(database.db, service.url, 'owner');
    const { text } = await other.browser.get(PAGE, { accept: 'text/html' });
    expect(text).toContain('Nothing to compare on these days');
  });
});
