import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import express from 'express';
import { expect, it } from 'vitest';
import { createHttpServer, listen } from '../../../src/core/http/server.js';

const CALLERS = 200;

it('answers an urgent request on a new connection before most requests of a crowd', async () => {
  let answered = 0;
  const app = express().use((req, res) => {
    const end = performance.now() + (req.url === '/urgent' ? 0 : 5);
    while (performance.now() < end);
    if (req.url !== '/urgent') answered++;
    res.end();
  });
  const server = createHttpServer(app, { isUrgent: ({ url }) => url === '/urgent' });
  await listen(server, { host: '127.0.0.1', port: 0 });
  const { port } = server.address() as AddressInfo;
  try {
    const crowd = Array.from({ length: CALLERS }, () => connect(port, '127.0.0.1'));
    const closed = crowd.map(async (socket) => {
      socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      let answer = '';
      for await (const text of socket.setEncoding('latin1')) answer += text;
      return answer;
    });
    const asked = request({ port, path: '/urgent', agent: false }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(200);
    expect(answered).toBeLessThan(CALLERS / 2);
    for (const text of await Promise.all(closed)) expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(answered).toBe(CALLERS);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
