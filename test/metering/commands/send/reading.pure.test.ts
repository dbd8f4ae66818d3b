import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { openInput } from '../../../../src/commands/kit/input.js';
import { MAX_LINE_BYTES } from '../../../../src/metering/commands/send/lines.js';
import {
  createMapping,
  listMappedColumns,
  type MappedColumn,
  type MappingOptions,
} from '../../../../src/metering/commands/send/mapping.js';
import type { SourceRecord } from '../../../../src/metering/commands/send/record.js';
import { guessFormat, readRecords, type Format } from '../../../../src/metering/commands/send/records.js';

/** Reads the input in chunks of `size` bytes. */
async function read(
  format: Format,
  contents: string | Buffer,
  { size = 7, delimiter = ',', needed = [] as MappedColumn[] } = {},
): Promise<SourceRecord[]> {
  const bytes = Buffer.from(contents);
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  );
  const input = openInput('-', Readable.from(pieces));
  const records: SourceRecord[] = [];
  for await (const some of readRecords(input, { format, delimiter }, needed))
    for (const record of some) records.push(record);
  return records;
}

const values = (records: SourceRecord[]) =>
  records.map(({ value, problem }) => (problem ? 'refused' : value));
const numbers = (records: SourceRecord[]) => records.map(({ number }) => number);

describe('NDJSON', () => {
  it('is read line by line however its bytes arrive, plain or gzipped', async () => {
    const text = '\ufeff{"a":"é🙂"}\r\n\n  \n{"a":2}\n{"a":3}';
    for (const size of [1, 2, 3, 5, 1000]) {
      for (const contents of [Buffer.from(text), gzipSync(text)]) {
        const records = await read('ndjson', contents, { size });
        expect(values(records)).toEqual([{ a: 'é🙂' }, { a: 2 }, { a: 3 }]);
        expect(numbers(records)).toEqual([1, 4, 5]);
      }
    }
  });

  it('continues after a line that is too long, not UTF-8 or not JSON', async () => {
    const long = `{"a":"${'x'.repeat(MAX_LINE_BYTES)}"}`;
    const bad = Buffer.from([0x7b, 0xff, 0x7d]);
    const text = Buffer.concat([Buffer.from(`{"a":1}\n${long}\n`), bad, Buffer.from('\n{\n{"a":5}\n')]);
    for (const size of [65_536, 4_000_000]) {
      const records = await read('ndjson', text, { size });
      expect(values(records)).toEqual([{ a: 1 }, 'refused', 'refused', 'refused', { a: 5 }]);
      expect(numbers(records)).toEqual([1, 2, 3, 4, 5]);
      expect(String(records[1]!.value).length).toBeLessThan(2000);
    }
  });

  it.each(['ndjson', 'csv'] as const)('places each record of a large %s chunk', async (format) => {
    const text = `id\n${Array.from({ length: 1000 }, (_, i) => i + 1000).join('\n')}`;
    for (const contents of [Buffer.from(text), gzipSync(text)]) {
      const records = (await read(format, contents, { size: 1_000_000 })).slice(-1000);
      const share = (i: number) => records[i]!.position / contents.length;
      expect(share(249)).toBeCloseTo(0.25, 1);
      expect(share(499)).toBeCloseTo(0.5, 1);
      expect(share(999)).toBeCloseTo(1, 1);
    }
  });

  it('stops at a truncated gzip file and at UTF-16', async () => {
    const cut = gzipSync('{"a":1}\n'.repeat(1000)).subarray(0, -10);
    await expect(read('ndjson', cut)).rejects.toThrow(/standard input cannot be read to its end/);
    await expect(read('ndjson', Buffer.from('\ufeff{}', 'utf16le'))).rejects.toThrow(/UTF-16/);
  });
});

describe('CSV', () => {
  it('keeps delimiters, quotes and line ends inside quotes', async () => {
    const text = 'id,note\r\n1,"a, b"\r\n2,"two\r\nlines\nand ""more"""\r\n\r\n3,\r\n4,"é🙂"';
    for (const size of [1, 4, 1000]) {
      const records = await read('csv', text, { size });
      expect(values(records)).toEqual([
        { id: '1', note: 'a, b' },
        { id: '2', note: 'two\r\nlines\nand "more"' },
        { id: '3', note: '' },
        { id: '4', note: 'é🙂' },
      ]);
      expect(numbers(records)).toEqual([2, 3, 7, 8]);
    }
  });

  it('loses only the bad line to a stray or unclosed quote or a wrong number of fields', async () => {
    const text = 'id,size\n1,"5\n2,b\n3,6"x\n4,c"d\n5,e,f\n6\n7,ok\n8,"open\n9,ok';
    for (const size of [1, 1000]) {
      const records = await read('csv', text, { size });
      expect(records.filter(({ problem }) => !problem).map(({ value }) => value)).toEqual([
        { id: '2', size: 'b' },
        { id: '7', size: 'ok' },
        { id: '9', size: 'ok' },
      ]);
      expect(records.filter(({ problem }) => problem).map(({ number }) => number)).toEqual([
        2, 4, 5, 6, 7, 9,
      ]);
    }
  });

  it('gives up on a closing quote after a megabyte', async () => {
    const rows = Array.from({ length: 200_000 }, (_, i) => `${i},v`).join('\n');
    const records = await read('csv', `id,v\n"open,x\n${rows}`, { size: 65_536 });
    expect(records).toHaveLength(200_001);
    expect(records[0]).toMatchObject({ number: 2, problem: expect.stringMatching(/not closed/) });
    expect(records[200_000]!.value).toEqual({ id: '199999', v: 'v' });
  });

  it('accepts another delimiter and unusual column names', async () => {
    const records = await read('csv', '__proto__;a.b;constructor\n1;2;3', { delimiter: ';' });
    const key = createMapping({ ...constants, idempotencyKey: '__proto__', quantity: 'a.b' })(records[0]!);
    expect(key).toMatchObject({ event: { idempotencyKey: '1', quantity: 2 } });
  });

  it('needs a header with distinct names', async () => {
    await expect(read('csv', 'a,a\n1,2')).rejects.toThrow(/two columns named "a"/);
    expect(await read('csv', '')).toEqual([]);
    // Without line feeds, the whole input would be the header.
    await expect(read('csv', 'a,b\r1,2\r')).rejects.toThrow(/carriage returns only/);
    expect(values(await read('csv', 'a,"b\r\nc"\r\n1,2'))).toEqual([{ a: '1', 'b\r\nc': '2' }]);
  });

  it('needs the columns that the mapping reads, except the default ones for quantity and time', async () => {
    const needed = listMappedColumns({
      productSlug: 'lower(a.b)',
      metric: '=m',
      occurredAt: 'none',
      idempotencyKey: 'hash(x)',
    });
    expect(needed).toEqual([{ flag: '--product-slug', name: 'a.b' }]);
    expect(await read('csv', 'a.b,c\n1,2', { needed })).toHaveLength(1);
    await expect(read('csv', 'x,c\n1,2', { needed })).rejects.toThrow(
      '--product-slug: there is no column "a.b". The columns are "x", "c".',
    );
    expect(listMappedColumns({}).map(({ name }) => name)).toEqual([
      'productSlug',
      'metric',
      'idempotencyKey',
    ]);
  });
});

describe('a JSON document', () => {
  it('has records in arrays at any depth, with the property names on the path', async () => {
    const document = { 'a/b': { x: [{ n: 1, inner: [{ n: 9 }] }, 5] }, tags: ['t'], c: [[{ n: 2 }]] };
    const records = await read('json', JSON.stringify(document));
    expect(records.map(({ value, keys, pointer }) => [value, keys, pointer])).toEqual([
      [{ n: 1, inner: [{ n: 9 }] }, ['a/b', 'x'], '/a~1b/x/0'],
      [5, ['a/b', 'x'], '/a~1b/x/1'],
      [{ n: 2 }, ['c'], '/c/0/0'],
    ]);
    expect(numbers(records)).toEqual([1, 2, 3]);
  });

  it('may hold no records only if it has an empty list', async () => {
    expect(await read('json', '[]')).toEqual([]);
    await expect(read('json', '{"a":1}')).rejects.toThrow(/no records/);
    await expect(read('json', '[1')).rejects.toThrow(/not valid JSON/);
    await expect(read('json', '['.repeat(200) + ']'.repeat(200))).rejects.toThrow(/nested deeper/);
  });
});

const constants: MappingOptions = { productSlug: '=p', metric: '=m' };
const record = (value: unknown, more: Partial<SourceRecord> = {}): SourceRecord => ({
  number: 1,
  keys: [],
  value,
  position: 0,
  ...more,
});

describe('the mapping', () => {
  const quantityOf = (quantity: unknown) => {
    const mapped = createMapping({ ...constants, idempotencyKey: 'id' })(record({ id: 'a', quantity }));
    return 'json' in mapped ? /"quantity":([^}]*)/.exec(mapped.json)?.[1] : 'refused';
  };

  it.each([
    [1.5, '1.5'],
    ['1.50', '1.50'],
    ['007', '7'],
    ['.5', '0.5'],
    ['0', '0'],
    ['000', '0'],
    ['1e3', '1e3'],
    [' 12 ', '12'],
    ['0.12345678901234567890', '0.12345678901234567890'],
    [undefined, undefined],
    [null, undefined],
    ['', undefined],
    [-1, 'refused'],
    ['1,000', 'refused'],
    ['NaN', 'refused'],
    ['1e999', 'refused'],
    [true, 'refused'],
    [{}, 'refused'],
    ['0'.repeat(1_000_000), 'refused'],
  ])('reads the quantity %j as %s', (quantity, digits) => {
    expect(quantityOf(quantity)).toBe(digits);
  });

  it('reads fields, nested fields, constants and the names on the path', () => {
    const map = createMapping({
      productSlug: 'lower($1)',
      metric: 'a.b',
      quantity: '=2',
      occurredAt: 'none',
      idempotencyKey: '.hash',
    });
    const value = { a: { b: 'calls' }, hash: 7, occurredAt: 'not used' };
    expect(map(record(value, { keys: ['SERIES'] }))).toMatchObject({
      event: { productSlug: 'series', metric: 'calls', quantity: 2, idempotencyKey: '7' },
      json: '{"productSlug":"series","metric":"calls","idempotencyKey":"7","quantity":2}',
    });
  });

  it('keeps long ids apart that a double would merge', async () => {
    const [a, b] = (await read('ndjson', '{"id":1234567890123456781}\n{"id":1234567890123456782}')).map(
      createMapping({ ...constants, idempotencyKey: 'id' }),
    );
    expect(a).toMatchObject({ event: { idempotencyKey: '1234567890123456781' } });
    expect(b).toMatchObject({ event: { idempotencyKey: '1234567890123456782' } });
  });

  it('requires a field named by a flag, but not a default field', () => {
    const bare = record({ id: 'a' });
    expect(createMapping({ ...constants, idempotencyKey: 'id' })(bare)).toHaveProperty('event');
    const named = createMapping({ ...constants, idempotencyKey: 'id', quantity: 'count' })(bare);
    expect(named).toMatchObject({
      code: 'invalid_record',
      detail: 'The record has no value at count (--quantity).',
    });
    expect(createMapping(constants)(bare)).toMatchObject({
      detail: 'The record has no value at idempotencyKey. Name the field with --idempotency-key.',
    });
  });

  it('hashes the same record in the same place, and only that, to the same key', () => {
    const keyOf = (expression: string, ...args: Parameters<typeof record>) => {
      const mapped = createMapping({ ...constants, idempotencyKey: expression })(record(...args));
      return (mapped as { event: { idempotencyKey: string } }).event.idempotencyKey;
    };
    const key = keyOf('hash', { a: 1 });
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(keyOf('hash', { a: 1 })).toBe(key);
    const others = [
      keyOf('hash', { a: 2 }),
      keyOf('hash', { a: 1 }, { number: 2 }),
      keyOf('hash(monday)', { a: 1 }),
      keyOf('hash', { a: 1 }, { keys: ['x'] }),
    ];
    expect(new Set([key, ...others]).size).toBe(5);
  });

  it('does not reach into prototypes, and refuses values that are not objects with fields', () => {
    const map = createMapping({ ...constants, idempotencyKey: 'constructor.name' });
    for (const value of [{}, [], null, 'text', 5]) expect(map(record(value))).toHaveProperty('code');
    const deep = JSON.parse(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`) as unknown;
    const mapped = createMapping({ ...constants, idempotencyKey: 'hash' })(record(deep));
    // In newer versions of Node, `JSON.stringify` does not run out of stack, so that the record can be sent.
    expect('json' in mapped || mapped.detail).toBeOneOf([true, 'The record is nested too deeply.']);
  });

  it('refuses a constant as idempotency key and an empty constant', () => {
    expect(() => createMapping({ idempotencyKey: '=same' })).toThrow(/cannot be a constant/);
    expect(() => createMapping({ metric: '=' })).toThrow(/--metric/);
  });
});

it('the format follows the file extension', () => {
  expect(guessFormat('a.ndjson')?.format).toBe('ndjson');
  expect(guessFormat('A.JSONL.GZ')?.format).toBe('ndjson');
  expect(guessFormat('a.csv.gz')).toEqual({ format: 'csv', delimiter: undefined });
  expect(guessFormat('a.tsv')).toEqual({ format: 'csv', delimiter: '\t' });
  expect(guessFormat('a.json.gz')?.format).toBe('json');
  for (const name of ['-', 'a', 'a.gz', 'constructor', 'a.txt']) expect(guessFormat(name)).toBeUndefined();
});

it('a subject and dimensions come from the fields that the flags name, and may be missing', () => {
  const map = createMapping({
    productSlug: '=search',
    metric: '=calls',
    idempotencyKey: 'id',
    subject: 'user.id',
    dimension: ['model=model_name', 'region==eu'],
  });
  const eventOf = (value: object) =>
    (map({ number: 1, keys: [], position: 0, value }) as { event: object }).event;
  expect(eventOf({ id: 'a', user: { id: 7 }, model_name: 'large', subject: 'ignored' })).toMatchObject({
    subject: '7',
    dimensions: { model: 'large', region: 'eu' },
  });
  const plain = eventOf({ id: 'b', model_name: '' });
  expect(plain).toMatchObject({ dimensions: { region: 'eu' } });
  expect(plain).not.toHaveProperty('subject');
  expect(() => createMapping({ dimension: ['model'] })).toThrow('--dimension needs a name and a field');
});
