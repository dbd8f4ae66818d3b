import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readClimateProduct } from '../../../src/markets/climate/product.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { climateText } from '../support/climate-texts.js';

const read = (id: string, text: string, near: string) =>
  readClimateProduct(text, findStation(id)!, new Date(near));

describe('a daily climate report', () => {
  it('is final when it covers the whole day', () => {
    const text = climateText({
      report: 'CLINYC',
      issued: '200644',
      date: 'AUGUST 19 2026',
      maximum: '85',
      minimum: '71',
    });
    expect(read('KNYC', text, '2026-08-20T06:44:00Z')).toEqual({
      stationId: 'KNYC',
      date: '2026-08-19',
      issuedAt: new Date('2026-08-20T06:44:00Z'),
      isFinal: true,
      isCorrection: false,
      maximumF: 85,
      minimumF: 71,
    });
  });

  it.each([
    ['New York', 'KNYC', 'VALID TODAY AS OF 0400 PM LOCAL TIME.'],
    ['Denver', 'KDEN', 'VALID AS OF 0600 AM LOCAL TIME.'],
  ])('is preliminary with the mark of %s, whenever it arrives', (_city, id, valid) => {
    const { report } = findStation(id)!;
    const text = climateText({ report, issued: '200830', date: 'AUGUST 19 2026', valid });
    expect(read(id, text, '2026-08-20T08:30:00Z')!.isFinal).toBe(false);
  });

  it('is preliminary before its day ends in standard time, and under TODAY', () => {
    // In New York, 19 August ends at 05:00Z.
    const early = climateText({ report: 'CLINYC', issued: '200459', date: 'AUGUST 19 2026' });
    expect(read('KNYC', early, '2026-08-20T04:59:00Z')!.isFinal).toBe(false);
    const today = climateText({
      report: 'CLINYC',
      issued: '200644',
      date: 'AUGUST 19 2026',
      period: 'TODAY',
    });
    expect(read('KNYC', today, '2026-08-20T06:44:00Z')!.isFinal).toBe(false);
  });

  it('may lack a value, be below zero, or mark a record', () => {
    const base = { report: 'CLIMSP', issued: '130830', date: 'JANUARY 12 2027' };
    expect(read('KMSP', climateText({ ...base, maximum: 'MM' }), '2027-01-13T08:30:00Z')).toMatchObject({
      maximumF: null,
      minimumF: 60,
    });
    const cold = climateText({ ...base, maximum: '-3', minimum: '-21R', place: 'TWIN CITIES' });
    expect(read('KMSP', cold, '2027-01-13T08:30:00Z')).toMatchObject({ maximumF: -3, minimumF: -21 });
  });

  it("takes the header's time, even around midnight and the end of a month", () => {
    const late = climateText({ report: 'CLINYC', issued: '010005', date: 'AUGUST 30 2026' });
    expect(read('KNYC', late, '2026-08-31T23:59:00Z')!.issuedAt).toEqual(new Date('2026-09-01T00:05:00Z'));
    const other = climateText({ report: 'CLINYC', issued: '150644', date: 'AUGUST 30 2026' });
    expect(read('KNYC', other, '2026-08-31T06:44:00Z')).toBeUndefined();
  });

  it('says that it is a correction', () => {
    const text = climateText({ report: 'CLIMIA', issued: '300910 CCA', date: 'AUGUST 29 2026' });
    expect(read('KMIA', text, '2026-08-30T09:10:00Z')!.isCorrection).toBe(true);
  });

  it.each([
    [
      'another station of the same office',
      climateText({ report: 'CLIEWR', issued: '200644', date: 'AUGUST 19 2026' }),
    ],
    [
      'a day that does not exist',
      climateText({ report: 'CLINYC', issued: '200644', date: 'AUGUST 32 2026' }),
    ],
    [
      'a monthly report',
      climateText({ report: 'CLINYC', issued: '200644', date: 'AUGUST 19 2026' }).replace(
        'CLIMATE SUMMARY FOR',
        'CLIMATE SUMMARY FOR THE MONTH OF',
      ),
    ],
    [
      'no temperatures',
      climateText({ report: 'CLINYC', issued: '200644', date: 'AUGUST 19 2026' }).replace(
        'TEMPERATURE (F)',
        '',
      ),
    ],
    ['nothing', ''],
  ])('is not read from %s', (_what, text) => {
    expect(read('KNYC', text, '2026-08-20T06:44:00Z')).toBeUndefined();
  });

  const file = new URL(
    '../../../../shared/data/kalshi-2026/nws_cli_CLISFO_20260924_excerpt.txt',
    import.meta.url,
  );
  it.skipIf(!existsSync(file))('is read as the weather service sends it', () => {
    expect(read('KSFO', readFileSync(file, 'utf8'), '2026-09-24T08:40:00Z')).toEqual({
      stationId: 'KSFO',
      date: '2026-09-23',
      issuedAt: new Date('2026-09-24T08:40:00Z'),
      isFinal: true,
      isCorrection: false,
      maximumF: 78,
      minimumF: 55,
    });
  });
});
