/**
 * The baselines for small requests: Express set up as in its documentation, with only `express.json()`, and a check as
 * a user would write it, with one prepared query for each request. Argument: the product's database URL.
 */
import express from 'express';
import pg from 'pg';
import { hashSecret } from '../src/accounts/api-keys/bearer-key.js';

const pool = new pg.Pool({ connectionString: process.argv[2], max: 8 });
const text = `
select p.slug, e.kind, case when e.has_own_cap then e.unit_cap else p.unit_cap end as cap, coalesce(t.quantity, 0) as used
from api_keys k
join products p on p.slug = any ($2)
left join entitlements e on e.org_id = k.org_id and e.product_id = p.id and e.starts_at <= now() and (e.ends_at is null or e.ends_at > now())
left join usage_totals t on t.org_id = k.org_id and t.period = date_trunc('month', now() at time zone 'UTC')::date
  and t.livemode = k.livemode and t.product_id = p.id and t.metric = p.usage_metric
where k.hashed_secret = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`;

const app = express();
app.use(express.json({ limit: '4mb' }));
app.post('/events', (_req, res) => {
  res.status(202).json({ accepted: 1, deduped: 0, warnings: [] });
});
app.get('/hello', (_req, res) => {
  res.json({ hello: 'world' });
});
app.post('/api/entitlements/check', async (req, res) => {
  const secret = req.headers.authorization!.slice('Bearer '.length);
  const { productSlugs } = req.body as { productSlugs: string[] };
  const { rows } = await pool.query({ name: 'check', text, values: [hashSecret(secret), productSlugs] });
  res.json({ entitlements: rows });
});
const server = app.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
});
