import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { writeReport } from '../../lab/evaluate/report.js';
import { newEvaluation } from '../../lab/test/evaluate/evaluation-fixture.js';
import { browserWorld, DESKTOP, PHONE } from '../support/browser.js';
import { signedIn } from '../support/accounts.js';
import { seedExecution } from '../markets/support/execution-page.js';
import { seedScores } from '../markets/support/scores-page.js';
import { findAllBarriers } from './barriers.js';

const world = browserWorld();

/** Checks that each chart has a name, the expected size and a table of its numbers. */
async function lookAtPictures(page: Page, names: string[]): Promise<void> {
  for (const part of await page.locator('.part > summary').all()) await part.click();
  const pictures = page.locator('svg.plot');
  expect(await pictures.locator('> title').allTextContents()).toEqual(names);
  for (const picture of await pictures.all()) {
    const box = (await picture.boundingBox())!;
    expect(box.height).toBeGreaterThan(100);
    expect(box.width).toBeGreaterThan(200);
  }
  for (const numbers of await page.locator('.chart-parts summary').all()) await numbers.click();
  for (const table of await page.locator('.chart-parts table').all())
    expect(await table.getByRole('row').count()).toBeGreaterThan(1);
}

it('the scores are accessible, on a desktop and on a phone, in both schemes', async () => {
  const { service, db } = world;
  await seedScores(service, { days: 40, model: 1, market: 3.2, stationIds: ['KNYC', 'KLAX'] });
  const { browser } = await signedIn(db, service.url, 'member');
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/scores');
  await lookAtPictures(page, ['Distance from the outcome', 'Observed frequency']);
  const models = page.getByRole('table', { name: 'Weather models' });
  expect(await models.getByRole('rowheader').allInnerTexts()).toEqual(['Single run', 'Ensemble']);
  expect(await findAllBarriers(page)).toEqual([]);
  expect(await page.getByRole('button', { name: 'Show' }).count()).toBe(0);
  await page.getByLabel('City').selectOption('Los Angeles');
  const lead = page.getByLabel('Lead');
  await lead.focus();
  await lead.selectOption('24 hours before the end of the day');
  await page.waitForURL('**/scores?station=KLAX&lead=24');
  expect(await lead.evaluate((field) => field.matches(':focus'))).toBe(true);
  expect(await page.getByText(/^\d+ of 1 gate /).innerText()).toContain('of 1 gate');
});

it('the execution of orders is accessible, on a desktop and on a phone, in both schemes', async () => {
  const { service, db } = world;
  const { browser, organization } = await signedIn(db, service.url, 'member');
  await seedExecution(service, organization.id);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/scores');
  await page.getByRole('link', { name: 'Execution' }).click();
  await page.waitForURL('**/scores/execution');
  expect(await page.getByRole('row').count()).toBe(3 + 1 + 3 + 1 + 2 + 1 + 3 + 1);
  expect(await findAllBarriers(page)).toEqual([]);
  const today = new Date(service.clock.now()).toISOString().slice(0, 10);
  await page.getByLabel('First day').fill('2026-01-01');
  await page.getByLabel('Last day').fill('2026-01-02');
  await page.getByLabel('Last day').press('Enter');
  await page.getByRole('heading', { name: 'Nothing to compare on these days' }).waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByLabel('First day').fill(today);
  await page.getByLabel('First day').press('Enter');
  await page.getByText('must not be after the last day').waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
});

it('the report of an evaluation opens from a folder, on a desktop and on a phone, in both schemes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gauge-report-'));
  // Opens the report from a file in a separate offline window, where only its own content policy applies.
  const chromium = (await world.visit()).context().browser()!;
  const page = await chromium.newPage({ offline: true, viewport: DESKTOP, reducedMotion: 'reduce' });
  try {
    const file = join(folder, 'report.html');
    await writeReport(newEvaluation(), file);
    const problems: string[] = [];
    page.on('console', (message) => problems.push(message.text()));
    page.on('request', (request) => {
      if (!request.url().startsWith('file:')) problems.push(request.url());
    });
    await page.goto(pathToFileURL(file).href);
    await lookAtPictures(page, [
      'CRPS over time',
      'Where the outcomes fell in the forecast distributions',
      'Where the observation fell among the members of the raw ensemble',
      'Coverage of the prediction intervals',
      'Observed against forecast',
    ]);
    expect(await findAllBarriers(page)).toEqual([]);
    expect(page.viewportSize()).toEqual(PHONE);
    expect(problems).toEqual([]);
  } finally {
    await page.close();
    await rm(folder, { recursive: true });
  }
});
