import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Context } from '../../src/context.js';
import type { Circumstance, Example, RouteDescription } from '../../src/openapi/description.js';
import { exampleWorld } from '../../src/openapi/example-world.js';
import { routeDescriptions } from '../../src/openapi/route-descriptions.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startTestService, type TestService } from '../support/service.js';
import { differences, expectDocumentedHeaders, expectDocumentedSchema } from './support/documented.js';
import { resetExampleWorld } from './support/example-rows.js';
import { connectionRefused, failingDatabase } from './support/failing-database.js';
import { presentCredential, sendExample } from './support/send-example.js';

let database: TestDatabase;
const running = new Map<Circumstance | 'healthy', TestService>();
let isWorldFresh = false;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  // What was counted in it is part of the circumstance.
  await running.get('limit_used_up')?.stop();
  running.delete('limit_used_up');
});
afterAll(async () => {
  for (const service of running.values()) await service.stop();
  await database.remove();
});

describe.each(routeDescriptions)('$method $path answers as documented', (route) => {
  it.each(route.examples)('$name: $summary', async (example) => {
    if (!isWorldFresh) await resetExampleWorld(database.db);
    isWorldFresh = !mayChangeTheWorld(route, example);
    const { url } = await serviceIn(example.circumstance ?? 'healthy');
    // People sign in where all is well, whatever the circumstance.
    const credentials = presentCredential((await serviceIn('healthy')).url);
    for (const earlier of example.before ?? []) await sendExample(url, route, earlier, credentials);
    const answer = await sendExample(url, route, example.request, credentials);

    const { status, body, headers } = example.response;
    const isJson = /json/.test(String(answer.headers['content-type']));
    const value: unknown = isJson && typeof body !== 'string' ? JSON.parse(answer.text) : answer.text;
    expect(answer.status, answer.text).toBe(status);
    if (typeof body === 'string') expect(value).toContain(body);
    else if (body !== undefined) expect(differences(value, body)).toEqual([]);
    else expect(answer.text).toBe('');
    expect(answer.headers).toMatchObject(headers ?? {});
    expectDocumentedHeaders(route, answer);
    expectDocumentedSchema(route, answer);
  });
});

function mayChangeTheWorld({ method }: RouteDescription, { response, before }: Example): boolean {
  return method !== 'get' && (response.status < 400 || before !== undefined);
}

async function serviceIn(circumstance: Circumstance | 'healthy'): Promise<TestService> {
  const known = running.get(circumstance);
  if (known) return known;
  const { env, context } = settingsOf(circumstance);
  const started = await startTestService(database.db, { env, context });
  started.clock.set(exampleWorld.now);
  if (circumstance === 'draining') started.context.lifecycle.state = 'draining';
  running.set(circumstance, started);
  return started;
}

function settingsOf(circumstance: Circumstance | 'healthy'): {
  env: Record<string, string>;
  context: Partial<Context>;
} {
  switch (circumstance) {
    case 'limit_used_up':
      return {
        env: {
          LIMIT_USAGE_PER_MINUTE: '1',
          LIMIT_ENTITLEMENTS_PER_MINUTE: '1',
          LIMIT_KEY_CHANGES_PER_HOUR: '1',
        },
        context: {},
      };
    case 'database_unreachable':
      return { env: {}, context: { db: failingDatabase(database.db, connectionRefused()) } };
    case 'defect':
      return { env: {}, context: { db: failingDatabase(database.db, new TypeError('a defect')) } };
    default:
      return { env: {}, context: {} };
  }
}
