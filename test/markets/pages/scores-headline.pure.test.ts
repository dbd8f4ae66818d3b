import { expect, it } from 'vitest';
import { tellingLeads, toHeadline, toRecent } from '../../../src/markets/pages/scores-view.js';

const over = (n: number, model: number, market: number) => ({
  crps: { n, model, market, raw: 2, climate: 3 },
});

it('says in one sentence whether the model is sharper than the market, or how many forecasts are missing', () => {
  const sentences = [
    over(7104, 1.1, 1.43),
    over(60, 2.1, 2),
    over(60, 2.001, 2),
    over(12, 1, 2),
    { crps: null },
  ];
  expect(sentences.map((scores) => toHeadline(scores, 30))).toEqual([
    '23% sharper than the market over 7,104 forecasts',
    '5% less sharp than the market over 60 forecasts',
    'As sharp as the market over 60 forecasts',
    'Too few forecasts to tell whether the model is sharper than the market: 12 of 30',
    'Too few forecasts to tell whether the model is sharper than the market: 0 of 30',
  ]);
});

it('adds how it was in the last 30 days, unless there is nothing older or too little', () => {
  const at = (date: string, n: number, model: number) => ({ date, n, model, market: 1, raw: 2, climate: 3 });
  const [old, late, last] = [
    at('2026-10-01', 50, 0.5),
    at('2026-11-02', 30, 0.9),
    at('2026-11-20', 10, 0.94),
  ];
  expect([[old, late, last], [old, last], [late, last], []].map((points) => toRecent(points, 30))).toEqual([
    ', and 9% sharper in the last 30 days',
    '',
    '',
    '',
  ]);
});

it('shows the lead that was asked for, even if the day’s extreme has usually been observed by then', () => {
  const shown = (...hours: number[]) =>
    tellingLeads({ kind: 'daily_maximum', leads: hours.map((leadHours) => ({ leadHours })) }).map(
      ({ leadHours }) => leadHours,
    );
  expect([shown(36, 24, 12, 6), shown(6)]).toEqual([[36, 24, 12], [6]]);
});
