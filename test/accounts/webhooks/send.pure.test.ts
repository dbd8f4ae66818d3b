import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, expect, it, vi } from 'vitest';
import { createReceivers, createSender } from '../../../src/accounts/webhooks/send.js';

let receiver: Server | undefined;
afterEach(() => {
  vi.useRealTimers();
  receiver?.closeAllConnections();
  receiver?.close();
});

/** Starts a receiver on this machine and returns a function that sends to it. */
async function receive(listener: RequestListener) {
  const server = (receiver = createServer(listener));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const sender = createSender({ production: false, allowsPrivate: false });
  const send = (scheme = 'http') =>
    sender.send({ url: `${scheme}://127.0.0.1:${port}/`, body: '{}', headers: {} });
  const connections = () =>
    new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
  return { send, connections };
}

it('a receiver that hangs on a reused connection gets the message once, and the connection ends', async () => {
  let requests = 0;
  let tellArrived = () => {};
  const arrived = new Promise<void>((resolve) => (tellArrived = resolve));
  const { send, connections } = await receive((req, res) => {
    req.resume();
    if (++requests === 1) res.end('ok');
    else tellArrived();
  });
  expect(await send()).toMatchObject({ statusCode: 200 });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const hanging = send();
  await arrived;
  vi.advanceTimersByTime(15_000);
  expect(await hanging).toEqual({
    statusCode: null,
    error: 'No complete response within 15 seconds.',
    text: null,
  });
  await setTimeout(200);
  expect(requests).toBe(2);
  expect(await connections()).toBe(0);
});

it('a URL is requested with its own scheme, however it is written', async () => {
  const { send } = await receive((req, res) => void req.resume().on('end', () => res.end('ok')));
  for (const scheme of ['HTTP', ' http']) expect(await send(scheme)).toMatchObject({ statusCode: 200 });
});

const fast = { isOk: true, durationMs: 10 };
const hanging = { isOk: false, durationMs: 15_000 };

function roomOf(receivers: ReturnType<typeof createReceivers>, id: string): number {
  const { ids, rooms, others } = receivers.rooms();
  const place = ids.indexOf(id);
  return place < 0 ? others : rooms[place]!;
}

it('a fast endpoint gets more room, a failing or slow one less, but never zero permanently', () => {
  const receivers = createReceivers();
  expect(roomOf(receivers, 'a')).toBe(4);
  for (let n = 0; n < 100; n++) {
    receivers.begin('a');
    receivers.finish('a', fast);
  }
  expect(roomOf(receivers, 'a')).toBe(64);
  receivers.begin('a');
  receivers.finish('a', { isOk: true, durationMs: 2_000 });
  expect(roomOf(receivers, 'a')).toBe(32);
  for (let n = 0; n < 100; n++) {
    receivers.begin('a');
    receivers.finish('a', hanging);
  }
  expect(roomOf(receivers, 'a')).toBe(1);
});

it('a thousand hanging endpoints leave a quarter of the places to those that answer', () => {
  const receivers = createReceivers();
  for (let n = 0; n < 10; n++) {
    receivers.begin('good');
    receivers.finish('good', fast);
  }
  let begun = 0;
  for (let n = 0; n < 1_000; n++)
    for (let room = roomOf(receivers, `hanging ${n}`); room > 0; room--, begun++)
      receivers.begin(`hanging ${n}`);
  expect(begun).toBe(768);
  expect(receivers.free()).toBe(256);
  expect(roomOf(receivers, 'good')).toBe(14);
  receivers.finish('hanging 0', hanging);
  expect(roomOf(receivers, 'another')).toBe(1);
});
