import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** An address that moves between servers, like a virtual IP or a DNS name. Open connections stay where they are. */
export interface Forwarder {
  port: number;
  /** Port of the server that new connections reach. */
  target: number;
  close(): void;
}

export async function createForwarder(target: number): Promise<Forwarder> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(forwarder.target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const forwarder: Forwarder = {
    port: (server.address() as AddressInfo).port,
    target,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return forwarder;
}
