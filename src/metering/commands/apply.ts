import { openTerminal } from '../../commands/kit/command.js';
import { runApplyCommand } from './declare/command.js';

process.exitCode = await runApplyCommand({ ...openTerminal(), env: process.env });
