/**
 * Waits for a condition. The time limit ends a test that would otherwise never end, and is long enough for a machine
 * many times slower than usual.
 */
export async function until(isSo: () => boolean | Promise<boolean>, forMs = 600_000): Promise<void> {
  const giveUpAt = Date.now() + forMs;
  while (!(await isSo())) {
    if (Date.now() > giveUpAt) throw new Error(`not so within ${forMs} ms: ${isSo.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
