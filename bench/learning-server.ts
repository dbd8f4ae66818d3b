/**
 * Runs the service. SIGUSR2 turns retraining every few seconds on and off; it is off at first. In production, the
 * service trains only a few times a day. Writes READY_FILE once the simulated past is complete.
 */
import { writeFileSync } from 'node:fs';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { readConfig } from '../src/config.js';
import { trainInSteps } from '../src/markets/training/training.js';
import { noFits } from '../src/markets/learning/fits.js';
import { newId } from '../src/core/ids.js';
import { startService } from '../src/service.js';

const EVERY_MS = 3_000;

const log = pino({ level: 'silent' });
const service = await startService(readConfig(process.env), { log, accessLog: log });
const trading = service.services.trading;
await trading.background.fillPast();
let isLearning = false;
process.on('SIGUSR2', () => (isLearning = !isLearning));
process.on('SIGTERM', () => void service.stop().then(() => process.exit(0)));
writeFileSync(process.env.READY_FILE!, '');

/** Recomputes fits and gates from scratch. */
async function learn(): Promise<void> {
  const at = new Date();
  const history = await trading.local!.archive.asOf(at);
  // Skips the fits for days in progress, which are computed only once a day.
  const steps = trainInSteps(history, { previous: noFits, newId: () => newId(at.getTime()), hours: [] });
  while (!steps.next().done) await nextTurn();
  await trading.background.judge();
}

for (;;) {
  await sleep(EVERY_MS);
  if (isLearning) await learn();
}
