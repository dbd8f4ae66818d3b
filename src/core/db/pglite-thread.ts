import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { collectGarbage } from '../memory.js';
import { openPglite } from './embedded.js';
import { servePglite } from './pglite-port.js';
import { withPreparedStatements } from './prepared-statements.js';

/** Each message with a port adds a client. */
const { directory } = workerData as { directory: string };
const main = parentPort!;
const pglite = withPreparedStatements(await openPglite(directory));
// Creating a database leaves 400 MB of garbage, which this thread's small heap would otherwise keep for a long time.
setTimeout(collectGarbage, 1000).unref();
const serve = (port: MessagePort): void => servePglite(pglite, port, () => setImmediate(() => main.close()));
serve(main);
main.on('message', ({ port }: { port?: MessagePort }) => {
  if (port) serve(port);
});
