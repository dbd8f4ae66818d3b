import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
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
 * The Python of a virtual environment with the packages of a list in this folder, which stays for later runs. Undefined
 * if they cannot be installed, which is an error with REQUIRE_PYTHON=1.
 */
export async function providePackages(list = 'python-packages.txt'): Promise<string | undefined> {
  const requirements = fileURLToPath(new URL(list, import.meta.url));
  const version = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16);
  // On disk, although TMPDIR may be in memory, because the packages are large.
  const folder = join('/tmp', `gauge-python-packages-${userInfo().uid}-${version}`);
  const [python, complete] = [join(folder, 'bin/python'), join(folder, 'complete')];
  if (existsSync(complete)) return python;
  const run = promisify(execFile);
  try {
    await run('python3', ['-m', 'venv', '--clear', folder]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--requirement', requirements]);
  } catch (error) {
    if (process.env.REQUIRE_PYTHON === '1') throw error;
    console.warn(`Tests that need the packages of ${list} are skipped: pip cannot install them.`, error);
    return undefined;
  }
  writeFileSync(complete, '');
  return python;
}
