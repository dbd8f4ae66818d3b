import type { Logger } from 'pino';
import { z } from 'zod';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { feeTypes, type FeeRule } from '../market/fees.js';
import { createNoteBook, type NoteBook } from '../market/source.js';
import { stations } from '../market/stations.js';
import {
  readPages,
  requireAllPages,
  UnexpectedAnswerError,
  type KalshiClient,
  type KalshiDeps,
  type Query,
} from './kalshi-client.js';
import { time, kalshiSeriesSchema, type KalshiSeries, kalshiSeriesListSchema } from './kalshi-schema.js';
import { noteUnreadable, readRows, type Rows, type UnreadableRow } from './rows.js';

/** The venue's name for the category; must match exactly. */
const CATEGORY = 'Climate and Weather';
/** How long the list of series is reused. New series appear a few times a month, and fees change at announced times. */
const CATALOGUE_FRESH_MS = HOUR_MS;
/** Upper bound on the length of the list, which has about 400 series. */
const MAX_SERIES = 2_000;

interface CatalogueOptions extends Pick<KalshiDeps, 'client' | 'clock'> {
  /** Default: the whole category. */
  only: readonly string[] | undefined;
  notes: () => Pick<NoteBook, 'add' | 'addAll'>;
  onFailure: (error: unknown) => void;
}

export function createCatalogue({ client, clock, only, notes, onFailure }: CatalogueOptions) {
  let series: readonly KalshiSeries[] = [];
  let noted = createNoteBook();
  let readAtMs = -Infinity;

  async function ask(signal: AbortSignal): Promise<void> {
    const query: Query = [['category', CATEGORY]];
    const { series: listed } = await client.get('/series', query, kalshiSeriesListSchema, signal);
    const found = readRows(kalshiSeriesSchema, listed.slice(0, MAX_SERIES));
    if (found.rows.length === 0) throw new UnexpectedAnswerError('/series', 'none that can be read');
    noted = createNoteBook();
    noteUnreadable(noted, found, { list: 'series', key: 'ticker' });
    series = found.rows
      .filter(({ ticker }) => only === undefined || only.includes(ticker))
      .toSorted(byImportance);
    readAtMs = clock.now();
  }

  return {
    /** Returns all series, refreshed hourly; while the venue is failing, returns the last good list. */
    async read(signal: AbortSignal): Promise<{ series: readonly KalshiSeries[]; readAtMs: number }> {
      if (Math.abs(clock.now() - readAtMs) >= CATALOGUE_FRESH_MS)
        try {
          await ask(signal);
        } catch (error) {
          if (series.length === 0 || signal.aborted) throw error;
          notes().add('not_read', 'series', (error as Error).message);
          onFailure(error);
        }
      notes().addAll(noted.list());
      return { series, readAtMs };
    },
  };
}

const stationSeries = new Set(stations.flatMap(({ series: { maximum, minimum } }) => [maximum, minimum]));

/** Orders the series of known stations first, so that the others wait if not all can be read in one pass. */
const byImportance = (a: KalshiSeries, b: KalshiSeries): number =>
  Number(stationSeries.has(b.ticker)) - Number(stationSeries.has(a.ticker)) || (a.ticker < b.ticker ? -1 : 1);

const CHANGES_FRESH_MS = 5 * MINUTE_MS;
/** An announced change overrides the series for this long after it takes effect, because the listing may lag behind. */
const SETTLED_MS = 5 * MINUTE_MS;
const PAGE_SIZE = 1000;
const MAX_PAGES = 10;

const multiplier = z.number().min(0).max(100);

const seriesChangesSchema = z.object({ series_fee_change_arr: z.array(z.unknown()) });
const seriesChangeSchema = z.object({
  series_ticker: z.string(),
  fee_type: z.string(),
  fee_multiplier: multiplier,
  scheduled_ts: time,
});

const eventChangesSchema = z.object({
  event_fee_changes: z.array(z.unknown()),
  cursor: z.string().nullish(),
});
/** Fees of one event; for null fields, the values of the event's series apply. */
const eventChangeSchema = z
  .object({
    event_ticker: z.string(),
    series_ticker: z.string(),
    fee_type_override: z.string().nullable(),
    fee_multiplier_override: multiplier.nullable(),
    scheduled_ts: time,
  })
  .transform((change) => ({
    eventTicker: change.event_ticker,
    seriesTicker: change.series_ticker,
    feeType: change.fee_type_override,
    feeMultiplier: change.fee_multiplier_override,
    at: Date.parse(change.scheduled_ts),
  }));
type EventChange = z.output<typeof eventChangeSchema>;

/** A change that cannot be read: from its time on, the fee of its event or series is unknown. */
interface UnknownFee {
  ticker: string;
  at: number;
}

interface SeriesChange {
  ticker: string;
  rule: FeeRule;
  at: number;
}

export function createKalshiFees(options: KalshiDeps & Pick<CatalogueOptions, 'notes'>) {
  const { client, clock, notes, log } = options;
  const toRule = createRuleReader(log);
  let seriesChanges: SeriesChange[] = [];
  /** Undefined until read: only this list shows whether an event has its own fees. */
  let eventChanges: EventChange[] | undefined;
  let changesReadAt = -Infinity;
  const { takeRows, readOrWarn, noteGaps } = createFeeLists({ clock, log });

  /** Series rules may be up to an hour old, so announced changes are read separately. */
  async function readChanges(series: readonly KalshiSeries[], signal: AbortSignal): Promise<void> {
    const now = clock.now();
    if (eventChanges && now - changesReadAt < CHANGES_FRESH_MS) return;
    changesReadAt = now;
    await readOrWarn('/series/fee_changes', signal, async () => {
      const answer = await client.get('/series/fee_changes', [], seriesChangesSchema, signal);
      const found = readRows(seriesChangeSchema, answer.series_fee_change_arr);
      const listed = takeRows('/series/fee_changes', 'series_ticker', found);
      // The list may drop past changes, so they are retained until the series are read again.
      const past = seriesChanges.filter(({ at }) => at <= now && now - at < CATALOGUE_FRESH_MS + SETTLED_MS);
      seriesChanges = [
        ...past,
        ...listed.map((change) => ({
          ticker: change.series_ticker,
          rule: toRule(change.fee_type, change.fee_multiplier),
          at: Date.parse(change.scheduled_ts),
        })),
      ].sort((a, b) => a.at - b.at);
    });
    await readOrWarn('/events/fee_changes', signal, async () => {
      const known = new Set(series.map(({ ticker }) => ticker));
      const found = readRows(eventChangeSchema, await readEventChanges(client, signal));
      const listed = takeRows('/events/fee_changes', 'event_ticker', found).filter(({ seriesTicker }) =>
        known.has(seriesTicker),
      );
      // This list may also drop past changes, and it is the only source of an event's fees.
      const past = (eventChanges ?? []).filter(
        ({ at, eventTicker }) =>
          at <= now && !listed.some((one) => one.eventTicker === eventTicker && one.at === at),
      );
      eventChanges = [...past, ...listed].sort((a, b) => a.at - b.at);
    });
  }

  return {
    /**
     * Returns the rules in force now, by series, and by event for events with their own rules. Scheduled changes apply
     * from their time. Empty until the events' own fees are known.
     * @param readAtMs when the list of series was read
     */
    async read(
      { series, readAtMs }: { series: readonly KalshiSeries[]; readAtMs: number },
      signal: AbortSignal,
    ): Promise<Map<string, FeeRule>> {
      await readChanges(series, signal);
      if (!eventChanges) {
        notes().add('missing_field', 'events.fee_changes', 'orders are refused until they can be read');
        return new Map();
      }
      const unknown = noteGaps(notes());
      return rulesAt(clock.now(), { series, readAtMs, seriesChanges, eventChanges, unknown }, toRule);
    },
  };
}

/** Remembers what could not be read in each list of changes. */
function createFeeLists({ clock, log }: Pick<KalshiDeps, 'clock' | 'log'>) {
  const failures = new Map<string, string>();
  /** Unreadable rows of each list. */
  const gaps = new Map<string, { unknown: UnknownFee[]; notes: NoteBook }>();

  function takeRows<T>(list: string, key: string, found: Rows<T>): T[] {
    const noted = createNoteBook();
    noteUnreadable(noted, found, { list: nameOf(list), key });
    gaps.set(list, {
      unknown: found.unreadable.flatMap((row) => toUnknownFee(row, clock.now())),
      notes: noted,
    });
    return found.rows;
  }

  /** Logs a failure once, and again only if its message changes. */
  async function readOrWarn(list: string, signal: AbortSignal, read: () => Promise<void>): Promise<void> {
    try {
      await read();
      failures.delete(list);
    } catch (error) {
      signal.throwIfAborted();
      const { message } = error as Error;
      if (failures.get(list) !== message)
        log.warn({ err: error, list }, "the venue's fee changes could not be read");
      failures.set(list, message);
    }
  }

  /** @returns the changes that could not be read */
  function noteGaps(notes: Pick<NoteBook, 'add' | 'addAll'>): UnknownFee[] {
    for (const [list, message] of failures) notes.add('not_read', nameOf(list), message);
    for (const { notes: noted } of gaps.values()) notes.addAll(noted.list());
    return [...gaps.values()].flatMap((gap) => gap.unknown);
  }

  return { takeRows, readOrWarn, noteGaps };
}

interface FeeData {
  series: readonly KalshiSeries[];
  readAtMs: number;
  seriesChanges: readonly SeriesChange[];
  eventChanges: readonly EventChange[];
  unknown: readonly UnknownFee[];
}

const unknownRule: FeeRule = { type: 'unknown', multiplier: 0n };

function rulesAt(now: number, data: FeeData, toRule: RuleReader): Map<string, FeeRule> {
  const { series, readAtMs, seriesChanges, eventChanges, unknown } = data;
  const rules = new Map<string, FeeRule>();
  const isNewer = ({ at }: { at: number }) => at <= now && readAtMs < at + SETTLED_MS;
  for (const { ticker, fee_type: type, fee_multiplier: factor } of series) {
    const change = seriesChanges.findLast((one) => one.ticker === ticker && isNewer(one));
    const isUnknown = unknown.some((one) => one.ticker === ticker && isNewer(one));
    rules.set(ticker, isUnknown ? unknownRule : (change?.rule ?? toRule(type, factor)));
  }
  const last = new Map(eventChanges.filter(({ at }) => at <= now).map((one) => [one.eventTicker, one]));
  for (const own of last.values()) {
    const seriesRule = rules.get(own.seriesTicker);
    if (!seriesRule || (own.feeType === null && own.feeMultiplier === null)) continue;
    const { type } = own.feeType === null ? seriesRule : toRule(own.feeType, 0);
    const { multiplier: factor } = own.feeMultiplier === null ? seriesRule : toRule(type, own.feeMultiplier);
    rules.set(own.eventTicker, { type, multiplier: factor });
  }
  const seriesNames = new Set(series.map(({ ticker }) => ticker));
  for (const { ticker, at } of unknown)
    if (at <= now && !seriesNames.has(ticker) && (last.get(ticker)?.at ?? -Infinity) <= at)
      rules.set(ticker, unknownRule);
  return rules;
}

const nameOf = (path: string): string => path.slice(1).replace('/', '.');

function toUnknownFee({ fields }: UnreadableRow, now: number): UnknownFee[] {
  const ticker = fields.event_ticker ?? fields.series_ticker;
  const at = time.safeParse(fields.scheduled_ts).data;
  return typeof ticker === 'string' ? [{ ticker, at: at === undefined ? now : Date.parse(at) }] : [];
}

type RuleReader = (feeType: string, multiplier: number | null) => FeeRule;

function createRuleReader(log: Logger): RuleReader {
  const warned = new Set<string>();
  return (feeType, feeMultiplier) => {
    const type = (feeMultiplier !== null && feeTypes.find((one) => one === feeType)) || 'unknown';
    if (type === 'unknown' && !warned.has(feeType)) {
      warned.add(feeType);
      log.warn({ feeType }, 'the venue has an unknown fee type; markets with it are not traded');
    }
    return { type, multiplier: BigInt(Math.round((feeMultiplier ?? 0) * 1_000_000)) };
  };
}

/** @throws if the list has an end that was not read, because an event that is missing from it would pay its series' fees */
async function readEventChanges(client: KalshiClient, signal: AbortSignal): Promise<unknown[]> {
  const path = '/events/fee_changes';
  const list = await readPages({ path, maxPages: MAX_PAGES, signal }, (cursor) =>
    client.get(path, [['limit', PAGE_SIZE], ...cursor], eventChangesSchema, signal),
  );
  return requireAllPages(list).flatMap(({ event_fee_changes: changes }) => changes);
}
