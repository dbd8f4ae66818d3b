import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const pythonClient = fileURLToPath(new URL('../../clients/python', import.meta.url));

const check = 'import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 10))';

/** True if Python 3.10 or later is installed. With REQUIRE_PYTHON=1, a missing Python is an error. */
export const hasPython = spawnSync('python3', ['-c', check]).status === 0;
if (!hasPython && process.env.REQUIRE_PYTHON === '1')
  throw new Error('REQUIRE_PYTHON=1, but python3 is not 3.10 or later with venv.');
if (!hasPython)
  console.warn('Tests of the Python client are skipped: they need Python 3.10 or later with venv.');
