// A model to begin with: what the time of year alone says. Run it, then start Gauge with it:
//   node docs/examples/model-server.mjs
//   FORECAST_SOURCE=http MODEL_URL=http://127.0.0.1:8080/ npm start
import { createServer } from 'node:http';

// Of the daily maximum, °F: the year's mean, how far the middle of summer is above it, and the deviation around that. The last
// number is how far the minimum is below it.
const climate = {
  KNYC: [62, 23, 8, 14],
  KMDW: [59, 26, 10, 16],
  KMIA: [84, 7, 4, 14],
  KAUS: [80, 17, 8, 22],
  KDEN: [66, 22, 11, 27],
  KLAX: [71, 6, 5, 15],
  KPHL: [65, 23, 8, 18],
  KSFO: [65, 6, 6, 14],
  KPHX: [87, 20, 6, 23],
  KSEA: [61, 16, 7, 15],
  KATL: [72, 18, 8, 18],
  KBOS: [59, 23, 9, 15],
  KDFW: [77, 20, 9, 20],
  KDCA: [67, 22, 9, 17],
  KLAS: [80, 24, 7, 22],
  KHOU: [79, 15, 7, 17],
  KMSP: [55, 30, 10, 18],
  KOKC: [73, 22, 10, 22],
  KMSY: [78, 14, 6, 15],
  KSAT: [80, 16, 8, 22],
  KSAN: [71, 6, 5, 13],
  KTTN: [64, 23, 8, 20],
  KEWR: [64, 23, 8, 17],
  KSDF: [68, 22, 9, 18],
};
// The areas of the venue's index lie around these stations.
const areas = {
  'INDEX-MIAMI': 'KMIA',
  'INDEX-NYC': 'KNYC',
  'INDEX-CHICAGO': 'KMDW',
  'INDEX-LA-COASTAL': 'KLAX',
};
const DAY_MS = 86_400_000;
const WARMEST_DAY = 205;
const WARMEST_HOUR = 16;

function dayOf(station, date) {
  const day = new Date(date);
  const dayOfYear = (day - Date.UTC(day.getUTCFullYear(), 0, 0)) / DAY_MS;
  const [mean, swing, standardDeviationF, range] = climate[station];
  const maximum = mean + swing * Math.cos((2 * Math.PI * (dayOfYear - WARMEST_DAY)) / 365.25);
  // The run that this is of: the last one of 00, 06, 12 and 18 UTC, and never one after the day has begun.
  const lastRun = Math.floor(Date.now() / (DAY_MS / 4)) * (DAY_MS / 4);
  const modelRunAt = new Date(Math.min(lastRun, day.getTime())).toISOString();
  return { maximum, minimum: maximum - range, run: { date, modelRunAt, standardDeviationF } };
}

/** Maximum and minimum of a day at a station. */
function forecastDay(station, date) {
  const { maximum, minimum, run } = dayOf(station, date);
  return [
    { station, kind: 'daily_maximum', ...run, meanF: maximum },
    { station, kind: 'daily_minimum', ...run, meanF: minimum },
  ];
}

/** Each hour of a day in an area, by its clock. */
function forecastHours(area, date) {
  const { maximum, minimum, run } = dayOf(areas[area], date);
  return Array.from({ length: 24 }, (_, hour) => {
    const warmth = (1 + Math.cos((2 * Math.PI * (hour - WARMEST_HOUR)) / 24)) / 2;
    return { station: area, kind: 'hourly', hour, ...run, meanF: minimum + warmth * (maximum - minimum) };
  });
}

const server = createServer((req, res) => {
  const { searchParams } = new URL(req.url, 'http://model');
  const asked = (name, known) =>
    (searchParams.get(name) ?? '').split(',').filter((id) => Object.hasOwn(known, id));
  const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''));
  const isAsked = to >= from && to - from < 100 * DAY_MS;
  const dates = Array.from({ length: isAsked ? (to - from) / DAY_MS + 1 : 0 }, (_, i) =>
    new Date(from + i * DAY_MS).toISOString().slice(0, 10),
  );
  // The same for `history=true`: what the time of year says was known long before any of these days.
  const forecasts = dates.flatMap((date) => [
    ...asked('stations', climate).flatMap((station) => forecastDay(station, date)),
    ...asked('areas', areas).flatMap((area) => forecastHours(area, date)),
  ]);
  res.writeHead(isAsked ? 200 : 400, { 'content-type': 'application/json' });
  res.end(
    JSON.stringify(isAsked ? { model: 'time of year', forecasts } : { error: 'from and to are needed' }),
  );
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () =>
  process.stdout.write(`The model answers at http://127.0.0.1:${server.address().port}/\n`),
);
