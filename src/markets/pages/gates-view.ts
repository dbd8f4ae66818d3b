import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { formatSigned } from '../../core/charts/text.js';
import { groupBy } from '../../core/collections.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { gateKey } from '../scores/gates.js';
import type { ScoresAnswer } from '../scores/schema.js';
import { leadsOf, type Gate, type GateBook } from '../signals/signal.js';
import { scoresAddress } from './addresses.js';
import { kindLabels } from './labels.js';
import { signalsOff } from './signals-view.js';

/** A row per city, a column per kind and lead. Open gates come first, then those closest to opening. Null before any day has settled. */
export function toHeatMap({ gates }: Pick<GateBook, 'gates'>, current: TemperatureKind) {
  if (gates.every(({ n }) => n === 0)) return null;
  const byGate = new Map(gates.map((gate) => [gateKey(gate), gate]));
  const places = temperatureKinds.flatMap((kind) =>
    placesOf(kind).map(({ id, city }) => ({ kind, id, city })),
  );
  const rows = [...groupBy(places, ({ city }) => city)].map(([city, own]) => {
    const cells = temperatureKinds.flatMap((kind) => {
      const stationId = own.find((place) => place.kind === kind)?.id;
      return leadsOf(kind).map((leadHours) => ({
        ...toCell(stationId === undefined ? undefined : byGate.get(gateKey({ kind, stationId, leadHours }))),
        isCurrent: kind === current,
      }));
    });
    const { kind, id } = own.find((place) => place.kind === current) ?? own[0]!;
    return {
      city,
      href: scoresAddress(kind, id),
      cells,
      open: cells.filter(({ level }) => level === 'open').length,
      best: Math.max(...cells.map(({ share }) => share)),
    };
  });
  return {
    kinds: temperatureKinds.map((kind) => ({
      name: kindLabels[kind].tab,
      leads: leadsOf(kind).map((hours) => `${hours} h`),
      isCurrent: kind === current,
    })),
    ...splitRows(rows.toSorted((a, b) => b.open - a.open || b.best - a.best || (a.city < b.city ? -1 : 1))),
  };
}

/** Cities with less evidence and no open gate are in a disclosure. */
const LEADING_SHARE = 0.1;

function splitRows<Row extends { open: number; best: number }>(rows: readonly Row[]) {
  const leading = rows.filter(({ open, best }) => open > 0 || best >= LEADING_SHARE);
  return leading.length === 0
    ? { rows, others: [] }
    : { rows: leading, others: rows.filter((row) => !leading.includes(row)) };
}

/** `level` sets the colour; the text conveys the same. */
function toCell(gate: Gate | undefined) {
  if (!gate) return { level: 'absent', share: 0, text: '', words: 'No market' };
  const share = evidenceShare(gate);
  if (gate.isOpen) return { level: 'open', share, text: '✓', words: 'Open' };
  if (gate.n === 0) return { level: 'none', share, text: '', words: 'Closed, no settled day' };
  const percent = share < 0.01 ? '<1%' : `${Math.floor(share * 100)}%`;
  const level = share < 1 / 3 ? 'far' : share < 2 / 3 ? 'half' : 'near';
  return { level, share, text: percent, words: `Closed, ${percent} of the evidence needed` };
}

/**
 * Evidence multiplies from day to day, so the share compares logarithms. A closed gate stays below 1, even if it lacks
 * only days.
 */
export function evidenceShare({ isOpen, evidence, needed }: Pick<Gate, 'isOpen' | 'evidence' | 'needed'>) {
  if (isOpen) return 1;
  const share = Math.log(evidence) / Math.log(needed);
  return share > 0 ? Math.min(share, 0.99) : 0;
}

/** `7 of 28 gates are open for highs.`; omits the kind for one station. */
export function describeGates({ stations, kind }: ScoresAnswer, isOneStation: boolean): string {
  const gates = stations.flatMap(({ leads }) => leads.map(({ gate }) => gate));
  const open = gates.filter(({ isOpen }) => isOpen).length;
  return open === 0
    ? signalsOff(gates.length)
    : `${open} of ${formatCount(gates.length, 'gate')} ${open === 1 ? 'is' : 'are'} open${isOneStation ? '' : ` for ${kindLabels[kind].plural}`}.`;
}

export const toGateRows = ({ stations }: Pick<ScoresAnswer, 'stations'>) =>
  stations.flatMap(({ leads }) =>
    leads.map(({ leadHours, gate }) => ({
      lead: `${leadHours} h`,
      isOpen: gate.isOpen,
      days: formatDecimal(gate.n),
      dropped: gate.dropped > 0 ? `${formatDecimal(gate.dropped)} dropped` : null,
      difference: gate.difference && formatSigned(gate.difference.mean, 2),
      interval:
        gate.difference &&
        `${formatSigned(gate.difference.low, 2)} to ${formatSigned(gate.difference.high, 2)}`,
      reason: gate.reason,
    })),
  );

export function describeErrorRates({ errorRates }: ScoresAnswer['gateRule']): string[] {
  const { gates, boundary, equal, costs, better, betterBy, betterAfterDays, small, smallBy } = errorRates;
  return [
    `If models never have an expected advantage over the available prices: on average, at most ${boundary} of ${gates} gates open within a year.`,
    `If models are only as good as mid prices and pay ${costs} a day in spread and fees: on average, at most ${equal} of ${gates} within a year. Without these costs, more would open.`,
    `If models beat mid prices by ${betterBy} in log score and pay the same costs: at least ${better} of ${gates} within a year, half of these within ${betterAfterDays} days.`,
    `If models are ahead of the available prices by ${smallBy} a day: at least ${small} of ${gates} within two years.`,
  ];
}
