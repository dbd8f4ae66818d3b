// A model to begin with: what the time of year alone says. Run it, then start Gauge with it:
//   node docs/examples/model-server.mjs
//   FORECAST_SOURCE=http MODEL_URL=http://127.0.0.1:8080/ npm start
import { createServer } from 'node:http';

// Of the daily maximum, °F: the year's mean, how far the middle of summer is above it, and the deviation around that.
const climate = {
  KNYC: [62, 23, 8],
  KMDW: [59, 26, 10],
  KMIA: [84, 7, 4],
  KAUS: [80, 17, 8],
  KDEN: [66, 22, 11],
  KLAX: [71, 6, 5],
  KPHL: [65, 23, 8],
};
const DAY_MS = 86_400_000;
const WARMEST_DAY = 205;

function forecast(station, date) {
  const day = new Date(date);
  const dayOfYear = (day - Date.UTC(day.getUTCFullYear(), 0, 0)) / DAY_MS;
  const [mean, swing, standardDeviationF] = climate[station];
  const meanF = mean + swing * Math.cos((2 * Math.PI * (dayOfYear - WARMEST_DAY)) / 365.25);
  // The run that this is of: the last one of 00, 06, 12 and 18 UTC, and never one after the day has begun.
  const lastRun = Math.floor(Date.now() / (DAY_MS / 4)) * (DAY_MS / 4);
  const modelRunAt = new Date(Math.min(lastRun, day.getTime())).toISOString();
  return { station, date, modelRunAt, meanF, standardDeviationF };
}

const server = createServer((req, res) => {
  const { searchParams } = new URL(req.url, 'http://model');
  const stations = (searchParams.get('stations') ?? '').split(',').filter((id) => Object.hasOwn(climate, id));
  const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''));
  const isAsked = to >= from && to - from < 100 * DAY_MS;
  const dates = Array.from({ length: isAsked ? (to - from) / DAY_MS + 1 : 0 }, (_, i) =>
    new Date(from + i * DAY_MS).toISOString().slice(0, 10),
  );
  // The same for `history=true`: what the time of year says was known long before any of these days.
  const forecasts = stations.flatMap((station) => dates.map((date) => forecast(station, date)));
  res.writeHead(isAsked ? 200 : 400, { 'content-type': 'application/json' });
  res.end(
    JSON.stringify(isAsked ? { model: 'time of year', forecasts } : { error: 'from and to are needed' }),
  );
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () =>
  process.stdout.write(`The model answers at http://127.0.0.1:${server.address().port}/\n`),
);
