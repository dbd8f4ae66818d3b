import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const pythonClient = fileURLToPath(new URL('../../clients/python', import.meta.url));

const check = 'import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 10))';

/** True if Python 3.10 or later is installed. With REQUIRE_PYTHON=1, a missing Python is an error. */
export const hasPython = spawnSync('python3', ['-c', check]).status === 0;
if (!hasPython && process.env.REQUIRE_PYTHON === '1')
  throw new Error('REQUIRE_PYTHON=1, but python3 is not 3.10 or later with venv.');
if (!hasPython)
  console.warn('Tests of the Python client are skipped: they need Python 3.10 or later with venv.');

export const hasMypy = spawnSync('mypy', ['--version']).status === 0;

/** Checks programs with `mypy --strict`. @throws an Error with mypy's output, in which line numbers count from the program's start */
export async function checkTypes(programs: string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-mypy-'));
  for (const [i, program] of programs.entries()) writeFileSync(join(folder, `program_${i}.py`), program);
  const env = { ...process.env, MYPYPATH: join(pythonClient, 'src') };
  await promisify(execFile)('mypy', ['--strict', '--cache-dir', join(folder, 'cache'), folder], { env });
  rmSync(folder, { recursive: true });
}

/**
 * Installs packages from the Python Package Index into a virtual environment that later runs use again.
 * @param packages with exact versions, such as `mypy==2.4.1`
 * @returns the environment's Python; run a package's program as a module, `python -m <module>`
 */
export async function providePackages(...packages: string[]): Promise<string> {
  const hash = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 12);
  const folder = fileURLToPath(new URL(`../../node_modules/.cache/python-${hash}`, import.meta.url));
  if (!existsSync(folder)) {
    mkdirSync(dirname(folder), { recursive: true });
    const making = mkdtempSync(`${folder}-`);
    const run = promisify(execFile);
    await run('python3', ['-m', 'venv', making]);
    await run(join(making, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...packages]);
    try {
      renameSync(making, folder);
    } catch {
      // Another process was faster.
      rmSync(making, { recursive: true });
    }
  }
  return join(folder, 'bin/python');
}
