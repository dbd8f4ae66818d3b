/** Set up as in Express's documentation, with only `express.json()`. */
import express from 'express';

const app = express();
app.use(express.json({ limit: '4mb' }));
app.post('/events', (_req, res) => {
  res.status(202).json({ accepted: 1, deduped: 0, warnings: [] });
});
app.get('/hello', (_req, res) => {
  res.json({ hello: 'world' });
});
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
});
