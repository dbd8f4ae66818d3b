import { CENT, type Micros } from '../market/money.js';
import { formatMoney } from './portfolio-view-text.js';

/** How pages about markets write prices, money and probabilities. */

/** `42¢`, `42.5¢`: what a contract costs of the dollar that it may pay. */
export function formatCents(price: Micros): string {
  const fraction = String(price % CENT)
    .padStart(4, '0')
    .replace(/0+$/, '');
  return `${price / CENT}${fraction === '' ? '' : `.${fraction}`}¢`;
}

/** `+$1.20`, `−$0.04`: for what comes and goes. */
export const formatChange = (micros: Micros): string => `${micros > 0n ? '+' : ''}${formatMoney(micros)}`;

/** `43 %`, `<1 %`: nothing is said to be certain that is not. */
export function formatProbability(probability: number): string {
  const percent = probability * 100;
  if (probability > 0 && percent < 0.5) return '<1\u00a0%';
  if (probability < 1 && percent >= 99.5) return '>99\u00a0%';
  return `${Math.round(percent)}\u00a0%`;
}

/** `43.8 %`, for comparing two of them. */
export const formatExactProbability = (probability: number): string =>
  `${(probability * 100).toFixed(1)}\u00a0%`;

/** `+7.2 points`, between two probabilities. */
export function formatPoints(difference: number): string {
  const text = Math.abs(difference * 100).toFixed(1);
  const sign = text === '0.0' ? '' : difference > 0 ? '+' : '−';
  return `${sign}${text}\u00a0points`;
}

/** `74°`, `74.3°`, `−3°`. */
export const formatDegrees = (degreesF: number, decimals = 0): string =>
  `${degreesF.toFixed(decimals).replace('-', '−')}°`;

/** `12 s`, `3 minutes`: an age. */
export function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes}\u00a0minutes` : `${Math.floor(minutes / 60)}\u00a0hours`;
}
