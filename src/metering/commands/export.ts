import { openTerminal } from '../../commands/kit/command.js';
import { runExportCommand } from './declare/command.js';

process.exitCode = await runExportCommand({ ...openTerminal(), env: process.env });
