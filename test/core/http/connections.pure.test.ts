import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import express from 'express';
import { afterEach, describe, expect, it } from 'vitest';
import type { ConnectionLimits } from '../../../src/core/http/connections.js';
import { createHttpServer, listen } from '../../../src/core/http/server.js';
import { until } from '../../support/until.js';

const large = Buffer.alloc(8 * 1024 * 1024, 'x');
const open: (Server | Socket)[] = [];
afterEach(() => {
  for (const one of open.splice(0)) {
    if ('closeAllConnections' in one) one.close().closeAllConnections();
    else one.destroy();
  }
});

/** Answers `/large` immediately with eight megabytes, and any other path when the test releases it. */
async function start(limits: Partial<ConnectionLimits> = {}, keepAliveMs?: number) {
  const begun: string[] = [];
  const finish: (() => void)[] = [];
  const app = express();
  app.get('/large', (_req, res) => void res.end(large));
  app.get('/slow', async (_req, res) => {
    await setTimeout(600);
    res.end('slow');
  });
  app.use((req, res) => {
    begun.push(req.url);
    finish.push(() => res.end(req.url));
  });
  const server = createHttpServer(app, { limits, ...(keepAliveMs && { keepAliveMs }) });
  await listen(server, { port: 0, host: '127.0.0.1' });
  open.push(server);
  return { begun, finish, port: (server.address() as { port: number }).port };
}

async function dial(port: number) {
  const socket = connect(port, '127.0.0.1');
  open.push(socket);
  const state = { isClosed: false };
  socket.on('error', () => undefined);
  socket.on('close', () => (state.isClosed = true));
  await new Promise((resolve) => socket.once('connect', resolve));
  return { socket, state };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const range = (count: number) => Array.from({ length: count }, (_, i) => `/${i}`);

it('an idle connection stays open for as long as the setting says', async () => {
  const { socket, state } = await dial((await start({}, 1_000)).port);
  let answers = '';
  socket.on('data', (chunk) => (answers += chunk.toString()));
  socket.write(get('/slow'));
  await until(() => answers.includes('slow'));
  expect(answers).toContain('Keep-Alive: timeout=1');
  await until(() => state.isClosed);
});

describe('pipelined requests', () => {
  it('are processed a few at a time and answered in order', async () => {
    const { begun, finish, port } = await start();
    const { socket } = await dial(port);
    let answers = '';
    socket.on('data', (chunk) => (answers += chunk.toString()));
    socket.write(range(20).map(get).join(''));
    await until(() => begun.length === 4);
    await setTimeout(50);
    expect(begun).toEqual(['/0', '/1', '/2', '/3']);
    // The last requests finish first, but their responses wait for the earlier ones.
    while (begun.length < 20 || finish.length > 0) {
      finish.pop()?.();
      await setTimeout(1);
    }
    await until(() => answers.endsWith('/19'));
    const bodies = answers.split('HTTP/1.1 200').map((one) => one.slice(one.lastIndexOf('\n') + 1));
    expect(bodies.slice(1)).toEqual(range(20));
  });

  it('end their connection if too many wait', async () => {
    const { begun, port } = await start();
    const { socket, state } = await dial(port);
    socket.write(range(64).map(get).join(''));
    await until(() => begun.length === 4);
    await setTimeout(50);
    expect(state.isClosed).toBe(false);
    socket.write(get('/64'));
    await until(() => state.isClosed);
    expect(begun).toHaveLength(4);
  });
});

describe('an unread answer', () => {
  it('ends its connection, but not one that is read slowly', async () => {
    const unreadMs = 1_000;
    const { port } = await start({ unreadMs });
    const stalled = await dial(port);
    stalled.socket.pause();
    stalled.socket.write(get('/large').repeat(4));
    const slow = await dial(port);
    const began = performance.now();
    slow.socket.write(get('/large').repeat(2));
    let received = 0;
    slow.socket.on('data', (chunk) => {
      received += chunk.length;
      slow.socket.pause();
      void setTimeout(10).then(() => slow.socket.resume());
    });
    await until(() => received >= 2 * large.length, 15_000);
    expect(performance.now() - began).toBeGreaterThan(2 * unreadMs);
    expect(slow.state.isClosed).toBe(false);
    // The client can still read the data that the kernel buffered; then the connection closes.
    stalled.socket.resume();
    await until(() => stalled.state.isClosed);
  });

  it('differs from an answer that takes its time', async () => {
    const { port } = await start({ unreadMs: 200 });
    const { socket } = await dial(port);
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.write(get('/slow'));
    await until(() => answer.endsWith('slow'));
  });

  it('counts towards the buffer of the whole process, beyond which the largest holders are disconnected', async () => {
    const { port } = await start({ bufferedBytes: 40 * 1024 * 1024 });
    const stalled = await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        const one = await dial(port);
        one.socket.pause();
        one.socket.write(get('/large').repeat(i < 2 ? 1 : 4));
        return one;
      }),
    );
    await setTimeout(1_000);
    for (const { socket } of stalled) socket.resume();
    const ended = () => stalled.map(({ state }) => state.isClosed);
    await until(() => ended().filter(Boolean).length >= 4);
    expect(ended().slice(0, 2)).toEqual([false, false]);
  });
});

describe('an address', () => {
  it('has a limited number of connections, and gets new ones when old ones end', async () => {
    const { port } = await start({ connectionsPerAddress: 3 });
    const held = await Promise.all([dial(port), dial(port), dial(port)]);
    const refused = await dial(port);
    await until(() => refused.state.isClosed);
    expect(held.map(({ state }) => state.isClosed)).toEqual([false, false, false]);
    held[0].socket.destroy();
    await setTimeout(50);
    const { socket } = await dial(port);
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.write(get('/slow'));
    await until(() => answer.endsWith('slow'));
  });
});

const WAITING = 700;
/** Script for another process that opens connections and prints how many succeeded within ten seconds. */
const caller = `
  const [port, wanted] = process.argv.slice(1).map(Number);
  let made = 0;
  const end = () => { console.log(made); process.exit(); };
  setTimeout(end, 10_000);
  for (let i = 0; i < wanted; i++)
    require('node:net').connect(port, '127.0.0.1', () => ++made === wanted && end()).on('error', () => {});
`;
/** Length of the kernel's accept queue; 0 if unknown. */
function maxWaiting(): number {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  } catch {
    return 0;
  }
}

describe('a busy process', () => {
  it.runIf(maxWaiting() > WAITING)('keeps hundreds of new connections waiting and loses none', async () => {
    const { port } = await start();
    // This process accepts nothing while `spawnSync` blocks it.
    const { stdout } = spawnSync(process.execPath, ['-e', caller, String(port), String(WAITING)]);
    expect(Number(stdout)).toBe(WAITING);
  });
});
