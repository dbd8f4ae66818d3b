import { beforeAll, describe, expect, it } from 'vitest';
import { insertRecords } from '../../../src/markets/scores/queries.js';
import { signedIn } from '../../support/accounts.js';
import { sources, seedScores } from '../support/scores-page.js';
import { useService } from '../../support/use.js';

const PAGE = '/dashboard/scores';

const { database, service } = useService();
let see: (query?: string) => Promise<{ status: number; main: string; words: string }>;
beforeAll(async () => {
  service.clock.set('2026-11-21T15:00:00Z');
  const { browser } = await signedIn(database.db, service.url, 'billing');
  see = async (query = '') => {
    // Scores are cached for half a minute.
    service.clock.advance(30_000);
    const { status, text } = await browser.get(`${PAGE}${query}`, { accept: 'text/html' });
    const main = text.slice(text.indexOf('<main'), text.indexOf('</main>'));
    return { status, main, words: toWords(main) };
  };
});

const toWords = (html: string): string =>
  html
    .replace(/<(svg|select)[\s\S]*?<\/\1>/g, ' ')
    .replace(/<[^>]+>/g, ' ')
    .replace(/\s+/g, ' ');

// The tests build on each other, from no scores to many.
describe('the scores page', () => {
  it('says when the first scores are due and that all gates are closed before anything settles', async () => {
    const { status, main, words } = await see();
    expect(status).toBe(200);
    expect(words).toContain('Signals are off: none of 96 gates is open.');
    expect(words).toContain('Not evaluated yet');
    expect(words).toContain('None have been recorded yet');
    expect(words).toContain('the next morning. A gate can open once 30 days');
    expect(main).not.toMatch(/class="(plot|heat-map)"/);
  });

  it('shows minima and hours separately, each with its own leads', async () => {
    const hours = await see('?kind=hourly');
    expect(hours.words).toContain('Signals are off: none of 16 gates is open.');
    expect(hours.words).toContain('recorded 12, 6, 3 and 1 hours before each hour');
    // For hours, the station filter selects the station's city.
    expect((await see('?kind=hourly&station=KMIA&lead=3')).words).toContain(
      'Signals are off: none of 1 gate is open.',
    );
    expect((await see('?kind=daily_minimum')).words).toContain('Signals are off: none of 96 gates is open.');
    for (const wrong of ['?kind=weekly', '?kind=hourly&lead=36', '?kind=hourly&station=KDEN'])
      expect((await see(wrong)).status, wrong).toBe(400);
  });

  it('counts forecasts that have not settled', async () => {
    const bracket = { ticker: 'T', floor: null, cap: null, model: 1, market: 1 };
    await insertRecords(database.db.orm, [
      {
        ...sources,
        kind: 'daily_maximum',
        station: 'KDEN',
        date: '2026-11-21',
        hour: 0,
        leadHours: 36,
        recordedAt: new Date('2026-11-20T19:00:00Z'),
        method: 'emos',
        modelRunAt: new Date('2026-11-20T12:00:00Z'),
        mean: 60,
        deviation: 2,
        atLeast: null,
        atMost: null,
        members: null,
        climateMean: null,
        climateDeviation: null,
        brackets: [bracket],
      },
    ]);
    expect((await see()).words).toContain('1 forecast has been recorded and waits for the end of its day');
  });

  it('says that only calibrated forecasts count while none exist', async () => {
    await seedScores(service, {
      days: 2,
      model: 2,
      market: 2,
      method: 'raw_ensemble',
      stationIds: ['KPHL'],
    });
    const { main, words } = await see();
    expect(words).toContain('No calibrated forecast has been scored yet');
    expect(words).toContain('8 forecasts made before the model could be calibrated are left out');
    expect(words).toContain('Philadelphia 20 Nov 2026 Not calibrated');
    expect(main).not.toContain('class="plot"');
  });

  it('leads with a sentence, then shows the gates where the model was ahead, with n, difference, evidence and the rule', async () => {
    await seedScores(service, { days: 45, model: 1, market: 3.2, stationIds: ['KNYC', 'KMIA'] });
    const { words } = await see();
    const gates = words.slice(words.indexOf('gates are open') - 10, words.indexOf('Reliability'));
    expect(gates).toMatch(/\d of 96 gates are open for highs\./);
    const [first] = /City (?:\w+, \d+ h )+(\w+ \w+)/.exec(gates)!.slice(1);
    expect(['New York', 'Miami Open', 'Miami ✓']).toContain(first);
    expect(gates).toMatch(
      /New York (✓ Open|\d+% Closed, \d+% of the evidence needed|Closed, no settled day)/,
    );
    expect(gates).toMatch(/Chicago Closed, no settled day/);
    expect(gates).toContain('beats the payable prices, including spread and fees');
    expect(gates).toContain('simulated, not those of this page');
    expect(gates).toContain(
      'If models never have an expected advantage over the available prices: on average, at most 0.2 of 28',
    );
    expect(gates).toContain(
      'only as good as mid prices and pay 0.15 a day in spread and fees: on average, at most 0.2 of 28',
    );
    expect(words).toMatch(
      /\d+% sharper than the market over \d+ forecasts, and \d+% sharper in the last 30 days\..*Mean over .*gates are open/,
    );

    const own = await see('?station=KNYC');
    expect(own.words).toMatch(/Scores: New York All cities/);
    const rows = own.words.match(
      /\d+ h before the end of the day (Open|Closed) 45 [+−]\d\.\d\d [+−]\d\.\d\d to [+−]\d\.\d\d [\w, ]+?: odds of [\w, ]+ to 1 \([\d,]+ to 1 are needed\)\./g,
    )!;
    expect(rows).toHaveLength(4);
    for (const row of rows.filter((text) => text.includes('Open'))) expect(row).toMatch(/ −/);
    expect(rows.join()).toContain('Open');
    expect(own.words).not.toContain('Chicago');
  });

  it('gives every chart a name, a sentence and a table', async () => {
    const { main, words } = await see();
    for (const id of ['crps', 'reliability']) {
      expect(main).toContain(`aria-labelledby="${id}-title" aria-describedby="${id}-desc"`);
      expect(main).toContain(`<desc id="${id}-desc">`);
    }
    // The reliability chart has a table for each side.
    expect(main.match(/<caption\b/g)).toHaveLength(3);
    expect(words).toMatch(/Mean over 360 forecasts: Model [\d.]+ °F, Market [\d.]+ °F, Raw model/);
    // The vertical axis has its unit.
    expect(main).toMatch(/text-anchor="end">\d[\d.]*&nbsp;°F<|text-anchor="end">\d[\d.]*\u00a0°F</);
    expect(words).toMatch(/360 calibrated forecasts compared with the market since 7 Oct 2026/);
  });

  it('shows the probabilities of model and market for each outcome, newest day first', async () => {
    const { words } = await see();
    const results = words.slice(words.indexOf('Latest results'));
    expect(results).toMatch(/Miami 20 Nov 2026 \d+°F [\d.]+% \/ [\d.]+%/);
    // Six hours before its end, a day is decided.
    expect(results).toMatch(/High 36 h 24 h 12 h Miami/);
    expect(results.indexOf('20 Nov 2026')).toBeLessThan(results.indexOf('19 Nov 2026'));
  });

  it('filters by city and lead, and keeps the choice', async () => {
    const { main, words } = await see('?station=KMIA&lead=24');
    expect(words).toMatch(/1 of 1 gate is open\.|Signals are off: none of 1 gate is open\./);
    expect(words).toContain('45 calibrated forecasts compared');
    expect(words).not.toContain('New York');
    expect(main).toMatch(/<option value="KMIA" selected>/);
    expect(main).toMatch(/<option value="24" selected>/);
  });

  it.each([
    ['?station=KXYZ', 'Must be one of the stations'],
    ['?lead=7', 'Must be one of 36, 24, 12, 6 hours'],
    ['?station=KMIA&station=KNYC', 'Must appear only once'],
    [`?station=${encodeURIComponent('"><script>alert(1)</script>')}`, 'Must be one of the stations'],
    [`?station=${'x'.repeat(300)}`, 'Must be one of the stations'],
    ['?lead=%00', 'Must be one of'],
  ])('shows the error for %s beside the field', async (query, problem) => {
    const { status, main, words } = await see(query);
    expect(status).toBe(400);
    expect(words).toContain(problem);
    expect(main).not.toContain('<script>alert');
    expect(main).toContain('aria-invalid="true"');
  });
});
