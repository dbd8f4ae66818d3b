import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createOrganization, createServiceKey } from '../support/fixtures.js';
import { findFreePort } from '../support/free-port.js';
import { createProduct, grant } from '../metering/support/products.js';
import { crashService, seed, type Answer, type Caller, type CrashingService } from './crash-service.js';
import { startServerProcess } from './server-process.js';

const ORGANIZATIONS = 40;
const scopes = ['usage:write'];

interface Prepared {
  organizations: { id: string; slug: string }[];
  product: { slug: string };
  secret: string;
}

/** Each Organization has its own events with the same keys. */
const eventsOf = ({ organizations, product }: Prepared, key: string, quantity: number) =>
  organizations.map(({ slug }) => ({
    organization: slug,
    productSlug: product.slug,
    metric: 'calls',
    quantity,
    idempotencyKey: key,
  }));

/** Sends the whole body again while parts cannot be recorded at the moment, as a well-behaved client does. */
async function send(service: CrashingService, events: object[], as?: Caller): Promise<Answer> {
  for (;;) {
    const answer = await service.call('POST', '/service/usage/events', { events }, as);
    const { refused = [] } = answer.body as { refused?: { status: number }[] };
    if (!refused.some(({ status }) => status >= 500)) return answer;
  }
}

it(
  `counts each event of forty Organizations once, and accepts nothing of a revoked service key, whatever is killed (seed ${seed})`,
  { timeout: 3_600_000 },
  async () => {
    const acknowledged = new Map<string, number>();
    /** Sent with a key that was revoked before they were answered. */
    const unclear = new Map<string, number>();
    const counts = { calls: 0, deduped: 0, revocations: 0, callsBefore: 0, callsAfter: 0 };

    /** Sends calls with a new key to two instances until one of them has revoked it and refuses each of them. */
    async function revokeUnderLoad(service: CrashingService, prepared: Prepared, port: number) {
      const input = { name: 'gateway', livemode: true, scopes };
      const { body } = await service.call('POST', '/operator/service-keys', input);
      const { secret, serviceKey } = body as { secret: string; serviceKey: { id: string } };
      let isRevoked = false;
      let accepted = 0;
      const senders = [undefined, port, undefined, port].map(async (at, number) => {
        for (let call = 0, late = 0; late < 3; call++) {
          const wasRevoked = isRevoked;
          const key = `r-${serviceKey.id}-${number}-${call}`;
          unclear.set(key, 1);
          const answer = await send(service, eventsOf(prepared, key, 1), { secret, port: at });
          if (answer.status === 202) {
            expect(answer.body).toMatchObject({ warnings: [] });
            expect([wasRevoked, answer.body.refused]).toEqual([false, undefined]);
            unclear.delete(key);
            acknowledged.set(key, 1);
            accepted++;
          } else expect(answer).toMatchObject({ status: 401, body: { code: 'key_revoked' } });
          if (wasRevoked) late++;
        }
      });
      while (accepted < 8 && !service.isStopping) await setTimeout(5);
      const path = `/operator/service-keys/${serviceKey.id}`;
      expect(await service.call('DELETE', path, undefined, { port })).toMatchObject({ status: 200 });
      isRevoked = true;
      await Promise.all(senders);
      counts.revocations++;
      counts.callsBefore += accepted;
      counts.callsAfter += 3 * senders.length;
    }

    await crashService<Prepared>({
      kills: 12,
      senders: 4,

      async prepare(db) {
        const product = await createProduct(db);
        const organizations = [];
        for (let i = 0; i < ORGANIZATIONS; i++) {
          const organization = await createOrganization(db);
          await grant(db, organization.id, product.id);
          organizations.push(organization);
        }
        return { organizations, product, secret: (await createServiceKey(db, scopes)).secret };
      },

      async send(service, prepared, { number, random }) {
        for (let call = 0; !service.isStopping; call++) {
          const keys = Array.from(
            { length: random.pick([1, 1, 2, 11]) },
            (_, i) => `e-${number}-${call}-${i}`,
          );
          // Sometimes repeats an event of an earlier call.
          if (call > 0 && random.chance(0.3)) keys.push(`e-${number}-${random.between(0, call - 1)}-0`);
          const events = keys.flatMap((key) => {
            if (!acknowledged.has(key)) acknowledged.set(key, random.between(0, 40));
            return eventsOf(prepared, key, acknowledged.get(key)!);
          });
          const unknown = random.chance(0.2) ? [{ ...events[0]!, organization: 'nobody' }] : [];
          const answer = await send(service, random.shuffle([...events, ...unknown]));
          expect(answer).toMatchObject({ status: 202, body: { warnings: [] } });
          const { accepted, deduped, refused = [] } = answer.body;
          expect([accepted + deduped, refused.length]).toEqual([events.length, unknown.length]);
          counts.calls++;
          counts.deduped += deduped;
        }
      },

      async sendBeside(service, prepared) {
        const port = await findFreePort();
        const other = startServerProcess({ ...service.env, PORT: String(port) });
        try {
          await other.ready;
          while (!service.isStopping) {
            await revokeUnderLoad(service, prepared, port);
            await setTimeout(300);
          }
        } finally {
          await other.end('SIGKILL');
        }
      },

      async verify(db, { organizations }) {
        const read = {
          name: 'test_events',
          text: 'select idempotency_key as key, trim_scale(quantity)::text as quantity from usage_events where org_id = $1',
        };
        for (const { id } of organizations) {
          const rows = await db.run(read, [id]);
          const found = new Map(rows.map(({ key, quantity }) => [key!, Number(quantity)]));
          expect(found.size).toBe(rows.length);
          for (const [key, quantity] of unclear) if (found.get(key) === quantity) found.delete(key);
          expect(found).toEqual(acknowledged);
        }
        expect(counts.revocations).toBeGreaterThan(1);
        console.log({ ...counts, eventsOfEach: acknowledged.size, organizations: organizations.length });
        return acknowledged.size;
      },
    });
  },
);
