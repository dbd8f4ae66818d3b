/**
 * CPU time in ms, the minimum of three runs, because a busy machine or garbage collection rarely disturbs all three.
 */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  let least = Infinity;
  for (let i = 0; i < 3; i++) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
