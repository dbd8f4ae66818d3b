import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { places as allPlaces } from '../../../src/markets/market/stations.js';

type Json = Record<string, unknown>;

/** Answers a request in place of the services; returns true if it did. */
type Fault = (req: IncomingMessage, res: ServerResponse, path: string) => boolean;

export interface Report {
  /** RFC 3339 with an offset, as the NWS writes it. */
  timestamp: string;
  rawMessage: string | null;
  valueC: number | null;
  qualityControl?: string;
}

/** A text product in the NWS format. */
export interface Product {
  id: string;
  /** RFC 3339. */
  issuanceTime: string;
  productText: string;
}

export interface FakeWeather {
  url: string;
  /** °F by station, member, time and model. */
  temperature: (stationId: string, member: number, timeMs: number, model: string) => number | null;
  /** °F by station, time, lead in days, and model. */
  previous: (stationId: string, timeMs: number, days: number, model: string) => number | null;
  /** Time of the last model run in seconds since the epoch; undefined if the service reports none. */
  lastRun: number | undefined;
  reports: Map<string, Report[]>;
  /** Climate reports by location (`NYC`), in any order. */
  products: Map<string, Product[]>;
  /** The service's current date. Responses start at its 00:00Z, or `past_days` earlier. */
  today: string;
  /** Alters Open-Meteo's responses. */
  spoil: ((locations: Json[]) => unknown) | undefined;
  fault: Fault | undefined;
  /** `/path?query` and User-Agent of each request. */
  requests: { path: string; agent: string | undefined }[];
  stop(): Promise<void>;
}

const HOUR_MS = 3_600_000;

/**
 * Starts one server that fakes Open-Meteo's ensemble API and the NWS observations in their documented formats, with
 * injectable faults.
 */
export async function startFakeWeather(): Promise<FakeWeather> {
  const server = createServer((req, res) => {
    const url = new URL(req.url!, 'http://weather');
    fake.requests.push({ path: decodeURIComponent(req.url!), agent: req.headers['user-agent'] });
    if (fake.fault?.(req, res, url.pathname)) return;
    const answer = answerTo(fake, url);
    res.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    res.end(JSON.stringify(answer ?? { reason: 'not found', error: true }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const fake: FakeWeather = {
    url: `http://127.0.0.1:${port}`,
    temperature: () => 60,
    previous: () => 60,
    lastRun: undefined,
    reports: new Map(),
    products: new Map(),
    today: '2026-07-04',
    spoil: undefined,
    fault: undefined,
    requests: [],
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return fake;
}

function answerTo(fake: FakeWeather, { pathname, searchParams }: URL): unknown {
  if (pathname === '/v1/ensemble') {
    const locations = ensembles(fake, searchParams);
    return fake.spoil ? fake.spoil(locations) : locations;
  }
  if (pathname === '/v1/forecast') {
    const isPast = searchParams.has('start_date');
    const locations = isPast ? previousRuns(fake, searchParams) : ensembles(fake, searchParams);
    return fake.spoil ? fake.spoil(locations) : locations;
  }
  if (
    /^\/data\/(ncep_gefs025|ecmwf_ifs025_ensemble|dwd_icon|ncep_(hrrr|nbm)_conus)\/static\/meta.json$/.test(
      pathname,
    )
  )
    return fake.lastRun === undefined
      ? undefined
      : { last_run_initialisation_time: fake.lastRun, last_run_availability_time: fake.lastRun + 18_000 };
  const location = /^\/products\/types\/CLI\/locations\/([A-Z]{3})$/.exec(pathname)?.[1];
  if (location !== undefined) return productList(fake, location);
  const productId = /^\/products\/([\w-]+)$/.exec(pathname)?.[1];
  if (productId !== undefined) return [...fake.products.values()].flat().find(({ id }) => id === productId);
  const stationId = /^\/stations\/([A-Z]{4})\/observations$/.exec(pathname)?.[1];
  return stationId === undefined ? undefined : observations(fake, stationId, searchParams.get('start'));
}

const productList = ({ products, url }: FakeWeather, location: string): Json => ({
  '@context': { '@version': '1.1', '@vocab': 'https://api.weather.gov/ontology#' },
  // Newest first, without the text, as the NWS lists them.
  '@graph': (products.get(location) ?? [])
    .toSorted((a, b) => (a.issuanceTime < b.issuanceTime ? 1 : -1))
    .map(({ id, issuanceTime }) => ({
      '@id': `${url}/products/${id}`,
      id,
      wmoCollectiveId: 'CDUS41',
      issuingOffice: 'KOKX',
      issuanceTime,
      productCode: 'CLI',
      productName: 'Climatological Report (Daily)',
    })),
});

/** Ensemble sizes, including the control run. Other models have only one member. */
const memberCounts: Record<string, number> = { gfs025: 31, ecmwf_ifs025: 51 };

function ensembles(fake: FakeWeather, query: URLSearchParams): Json[] {
  const first = Date.parse(`${fake.today}T00:00:00Z`) - Number(query.get('past_days')) * 24 * HOUR_MS;
  const hours = (Number(query.get('past_days')) + Number(query.get('forecast_days'))) * 24;
  const times = Array.from({ length: hours }, (_, hour) => first + hour * HOUR_MS);
  const model = query.get('models')!;
  return places(query, times, (stationId) =>
    Array.from({ length: memberCounts[model] ?? 1 }, (_, member): [string, unknown] => [
      member === 0 ? 'temperature_2m' : `temperature_2m_member${String(member).padStart(2, '0')}`,
      times.map((ms) => fake.temperature(stationId, member, ms, model)),
    ]),
  );
}

function previousRuns(fake: FakeWeather, query: URLSearchParams): Json[] {
  const [first, last] = ['start_date', 'end_date'].map((name) => Date.parse(query.get(name)!));
  const hours = (last! - first!) / HOUR_MS + 24;
  const times = Array.from({ length: hours }, (_, hour) => first! + hour * HOUR_MS);
  return places(query, times, (stationId) =>
    query
      .get('hourly')!
      .split(',')
      .map((name): [string, unknown] => [
        name,
        times.map((ms) => fake.previous(stationId, ms, Number(name.at(-1)), query.get('models')!)),
      ]),
  );
}

/** Builds the structure that all Open-Meteo responses share. */
function places(
  query: URLSearchParams,
  times: number[],
  columnsOf: (stationId: string) => [string, unknown][],
): Json[] {
  const [latitudes, longitudes] = ['latitude', 'longitude'].map((name) => query.get(name)!.split(','));
  const unit = query.get('temperature_unit') === 'fahrenheit' ? '°F' : '°C';
  return latitudes!.map((latitude, i) => {
    // Some areas share a station's location, so only the order distinguishes them.
    const columns = Object.fromEntries<unknown>(columnsOf(allPlaces[i]!.id));
    return {
      // The nearest grid point.
      latitude: Math.round(Number(latitude) * 4) / 4,
      longitude: Math.round(Number(longitudes![i]) * 4) / 4,
      generationtime_ms: 1.5,
      utc_offset_seconds: 0,
      timezone: 'GMT',
      timezone_abbreviation: 'GMT',
      elevation: 10,
      ...(i === 0 ? {} : { location_id: i }),
      hourly_units: {
        time: 'unixtime',
        ...Object.fromEntries(
          query
            .get('hourly')!
            .split(',')
            .map((name) => [name, unit]),
        ),
      },
      hourly: { time: times.map((ms) => ms / 1000), ...columns },
    };
  });
}

function observations({ reports, url }: FakeWeather, stationId: string, start: string | null): Json {
  const found = (reports.get(stationId) ?? []).filter(
    ({ timestamp }) => start === null || Date.parse(timestamp) >= Date.parse(start),
  );
  return {
    '@context': ['https://geojson.org/geojson-ld/geojson-context.jsonld'],
    type: 'FeatureCollection',
    features: found.map(({ timestamp, rawMessage, valueC, qualityControl = 'V' }) => ({
      id: `${url}/stations/${stationId}/observations/${timestamp}`,
      type: 'Feature',
      geometry: { type: 'Point', coordinates: [-73.97, 40.78] },
      properties: {
        station: `${url}/stations/${stationId}`,
        timestamp,
        rawMessage: rawMessage ?? '',
        textDescription: 'Clear',
        temperature: { unitCode: 'wmoUnit:degC', value: valueC, qualityControl },
      },
    })),
  };
}
