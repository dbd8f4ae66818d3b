import { listenForInterrupt, openTerminal } from '../../commands/kit/command.js';
import { runSendCommand } from './send/command.js';

process.exitCode = await runSendCommand({
  ...openTerminal(),
  env: process.env,
  interrupt: listenForInterrupt(),
});
