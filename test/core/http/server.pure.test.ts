import { request, type IncomingHttpHeaders, type Server } from 'node:http';
import express, { type Express } from 'express';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createHttpServer } from '../../../src/core/http/server.js';

/** Creates an app that uses each of Express's additions to requests and responses once. */
function createSample(): Express {
  const app = express();
  // Production mode omits the stack trace, which contains class names.
  app.set('env', 'production');
  app.use(express.json());
  app.get('/json', (req, res) => {
    res.json({ ip: req.ip, host: req.hostname, query: req.query, accepts: req.accepts('json') });
  });
  app.get('/text', (_req, res) => void res.type('text').send('text'));
  app.get('/redirect', (_req, res) => res.redirect(303, '/json'));
  app.get('/empty', (_req, res) => void res.status(204).end());
  app.get('/chunks', (_req, res) => {
    res.write('one,');
    res.end('two');
  });
  app.get(
    '/cookie',
    (_req, res) => void res.cookie('a', 'b').append('X-Many', '1').append('X-Many', '2').send('ok'),
  );
  app.get('/throws', () => {
    throw Object.assign(new Error('no'), { status: 418, expose: true });
  });
  app.post('/echo', (req, res) => void res.status(201).json(req.body));
  return app;
}

interface Reply {
  status: number | undefined;
  headers: IncomingHttpHeaders;
  body: string;
}

function call(server: Server, method: string, path: string, body?: string): Promise<Reply> {
  const { port } = server.address() as { port: number };
  return new Promise((resolve, reject) => {
    const headers = {
      host: 'gauge.example',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const call = request({ port, host: '127.0.0.1', method, path, headers }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('end', () => {
        const { date: _date, 'keep-alive': _keepAlive, ...rest } = res.headers;
        resolve({ status: res.statusCode, headers: rest, body: Buffer.concat(chunks).toString() });
      });
    });
    call.on('error', reject);
    call.end(body);
  });
}

describe('the server for an Express app', () => {
  let ours: Server;
  let theirs: Server;
  beforeAll(async () => {
    // In production mode, Express prints each error that it answers.
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    ours = createHttpServer(createSample());
    await new Promise<void>((resolve) => ours.listen(0, '127.0.0.1', resolve));
    await new Promise<void>((resolve) => {
      theirs = createSample().listen(0, '127.0.0.1', () => resolve());
    });
  });
  afterAll(() => {
    vi.restoreAllMocks();
    ours.close();
    theirs.close();
  });

  it.each<[method: string, path: string, body?: string]>([
    ['GET', '/json?a=1&b[c]=2'],
    ['HEAD', '/json'],
    ['GET', '/text'],
    ['GET', '/redirect'],
    ['GET', '/empty'],
    ['GET', '/chunks'],
    ['GET', '/cookie'],
    ['GET', '/throws'],
    ['GET', '/nothing'],
    ['OPTIONS', '/json'],
    ['POST', '/echo', '{"a":[1,"ü"]}'],
    ['POST', '/echo', '{"a":'],
    ['POST', '/echo'],
  ])('answers %s %s %s as app.listen does', async (method: string, path: string, body?: string) => {
    const [own, reference] = await Promise.all([
      call(ours, method, path, body),
      call(theirs, method, path, body),
    ]);
    expect(own).toEqual(reference);
  });

  it('hands the app messages whose prototypes need no change', async () => {
    const app = express();
    app.get('/', (req, res) => {
      res.json([Object.getPrototypeOf(req) === app.request, Object.getPrototypeOf(res) === app.response]);
    });
    let before: unknown[] = [];
    const server = createHttpServer(app);
    server.prependListener('request', (req, res) => {
      before = [Object.getPrototypeOf(req) === app.request, Object.getPrototypeOf(res) === app.response];
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    expect((await call(server, 'GET', '/')).body).toBe('[true,true]');
    expect(before).toEqual([true, true]);
    server.close();
  });
});
