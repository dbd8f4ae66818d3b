import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { collectGarbage } from '../memory.js';
import { openPglite } from './embedded.js';
import { servePglite } from './pglite-port.js';
import { withPreparedStatements } from './prepared-statements.js';

/** Entry of the thread that runs the embedded database. A message with a port adds another client. */
const { directory } = workerData as { directory: string };
const main = parentPort!;
const pglite = withPreparedStatements(await openPglite(directory));
// Creating a database leaves 400 MB of buffers behind, which the small heap of this thread would keep for long.
setTimeout(collectGarbage, 1000).unref();
const serve = (port: MessagePort): void => servePglite(pglite, port, () => setImmediate(() => main.close()));
serve(main);
main.on('message', ({ port }: { port?: MessagePort }) => {
  if (port) serve(port);
});
