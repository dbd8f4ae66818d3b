import { runEvaluateCommand } from '../evaluate/command.js';

const { argv, stdin, stdout, stderr } = process;
// Nobody reads on, as with `| head`.
for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
try {
  process.exitCode = await runEvaluateCommand({ args: argv.slice(2), stdin, stdout, stderr });
} catch (error) {
  console.error(error);
  process.exitCode = 2;
}
