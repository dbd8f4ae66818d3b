/** A bare Express handler that sends prebuilt bytes, and `res.json` of the same object. */
import express from 'express';

const url = process.argv[2]!;
const bytes = Buffer.from(
  await (await fetch(url, { headers: { 'accept-encoding': 'identity' } })).arrayBuffer(),
);
const value: unknown = JSON.parse(bytes.toString());

const app = express();
app.get('/bytes', (_req, res) => {
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  res.setHeader('Content-Length', bytes.length);
  res.end(bytes);
});
app.get('/json', (_req, res) => {
  res.json(value);
});
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
});
