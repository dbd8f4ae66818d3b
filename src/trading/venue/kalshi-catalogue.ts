import type { Clock } from '../../core/clock.js';
import { stations } from '../market/stations.js';
import type { KalshiClient } from './kalshi-client.js';
import { kalshiSeriesListSchema, kalshiSeriesSchema, type KalshiSeries } from './kalshi-schema.js';
import type { NoteBook } from '../market/notes.js';

/** The venue's name of the category; it matches to the letter. */
const CATEGORY = 'Climate and Weather';
/** New series come a few times a month; fees change at announced times. */
export const CATALOGUE_FRESH_MS = 60 * 60 * 1000;
/** The list has some 400; more than this are not read. */
const MAX_SERIES = 2_000;

/** The series of the venue's climate category, found and not listed here. */
export interface Catalogue {
  /** All series, read anew once an hour; the last good list is kept while the venue fails. */
  read(signal: AbortSignal): Promise<{ series: readonly KalshiSeries[]; readAtMs: number }>;
}

export interface CatalogueOptions {
  client: KalshiClient;
  clock: Clock;
  /** Only these series; undefined: all of the category. */
  only: readonly string[] | undefined;
  notes: () => Pick<NoteBook, 'add'>;
  onFailure: (error: unknown) => void;
}

export function createCatalogue({ client, clock, only, notes, onFailure }: CatalogueOptions): Catalogue {
  let series: readonly KalshiSeries[] = [];
  let readAtMs = -Infinity;

  async function ask(signal: AbortSignal): Promise<void> {
    const { series: listed } = await client.get(
      '/series',
      [['category', CATEGORY]],
      kalshiSeriesListSchema,
      signal,
    );
    const found = listed.slice(0, MAX_SERIES).flatMap((value) => {
      const parsed = kalshiSeriesSchema.safeParse(value);
      if (parsed.success) return [parsed.data];
      const { path, message } = parsed.error.issues[0]!;
      notes().add('missing_field', `series.${path.map(String).join('.')}`, message);
      return [];
    });
    series = found.filter(({ ticker }) => only === undefined || only.includes(ticker)).toSorted(byImportance);
    readAtMs = clock.now();
  }

  return {
    async read(signal) {
      if (Math.abs(clock.now() - readAtMs) < CATALOGUE_FRESH_MS) return { series, readAtMs };
      try {
        await ask(signal);
      } catch (error) {
        if (series.length === 0 || signal.aborted) throw error;
        onFailure(error);
      }
      return { series, readAtMs };
    },
  };
}

const stationSeries = new Set(stations.flatMap(({ series: { maximum, minimum } }) => [maximum, minimum]));

/** Those of the stations come first: the others wait where not everything can be asked for at once. */
const byImportance = (a: KalshiSeries, b: KalshiSeries): number =>
  Number(stationSeries.has(b.ticker)) - Number(stationSeries.has(a.ticker)) || (a.ticker < b.ticker ? -1 : 1);
