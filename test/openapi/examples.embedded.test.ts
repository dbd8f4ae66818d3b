import { describe, expect, it } from 'vitest';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { useDatabase } from '../support/use.js';
import { differences, expectDocumentedHeaders, expectDocumentedSchema } from './support/documented.js';
import { useExamples } from './support/examples.js';
import { exchange } from './support/send-example.js';

const database = useDatabase();
const examples = useExamples(() => database.db);

describe.each((await describeService(products)).routes)('$method $path answers as documented', (route) => {
  it.each(route.examples)('$name: $summary', async (example) => {
    const { service, request } = await examples.prepare(route, example);
    const answer = await exchange(service.url, request);

    const { status, body, headers } = example.response;
    expect(answer.status, answer.text).toBe(status);
    if (typeof body === 'string') expect(answer.text).toContain(body);
    else if (body !== undefined) expect(differences(JSON.parse(answer.text), body)).toEqual([]);
    else if (headers?.location === undefined) expect(answer.text).toBe('');
    expect(answer.headers).toMatchObject(headers ?? {});
    expectDocumentedHeaders(route, answer);
    expectDocumentedSchema(route, answer);
  });
});
