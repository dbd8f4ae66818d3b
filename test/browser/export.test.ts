import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { browserWorld } from '../support/browser.js';
import { hostileNames, ordinaryNames, populate } from '../pages/populated.js';

const world = browserWorld();

/** Follows a download link and parses the CSV file. */
async function download(page: Page, link: string): Promise<{ name: string; rows: Record<string, string>[] }> {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('main').getByRole('link', { name: link }).first().click(),
  ]);
  const text = await readFile(await file.path(), 'utf8');
  return {
    name: file.suggestedFilename(),
    rows: parse(text, { columns: true, bom: true }),
  };
}

/** True for a cell that a spreadsheet would evaluate as a formula. */
const isFormula = (cell: string) => /^[=+\-@\t\r]/.test(cell) && Number.isNaN(Number(cell));

describe.each([{ javaScript: true }, { javaScript: false }])(
  'with scripts: $javaScript',
  ({ javaScript }) => {
    it('usage, events and the audit log are exported as the pages show them, and no cell is a formula', async () => {
      const { people, eventKeys, productSlugs } = await populate(
        world.service,
        javaScript ? hostileNames : ordinaryNames,
      );
      const page = await world.visit({ javaScript, as: people.owner.browser });
      await page.goto(`/dashboard/usage?product=${productSlugs[0]}&range=last30`);
      const usage = await download(page, 'Download CSV');
      expect(usage.name).toMatch(/\.csv$/);
      expect(usage.rows.length).toBeGreaterThan(0);

      const events = await download(page, 'Download events as CSV');
      expect(events.rows.length).toBeGreaterThan(1);
      const exported = events.rows.map((row) =>
        Object.values(row).find((cell) => eventKeys.some((key) => cell.endsWith(key))),
      );
      expect(exported).not.toContain(undefined);

      await page.goto('/dashboard/audit-log');
      const audit = await download(page, 'Export as CSV');
      expect(audit.rows.map((row) => row.action)).toContain('api_key.rotated');

      for (const { rows } of [usage, events, audit])
        expect(rows.flatMap((row) => Object.values(row)).filter(isFormula)).toEqual([]);
    });
  },
);
