import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { openPglite } from './embedded.js';
import { servePglite } from './pglite-port.js';

/** Entry of the thread that runs the embedded database. A message with a port adds another client. */
const { directory } = workerData as { directory: string };
const main = parentPort!;
const pglite = await openPglite(directory);
const serve = (port: MessagePort): void => servePglite(pglite, port, () => setImmediate(() => main.close()));
serve(main);
main.on('message', ({ port }: { port?: MessagePort }) => {
  if (port) serve(port);
});
