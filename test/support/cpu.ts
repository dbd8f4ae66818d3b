/**
 * What `work` costs this process, in ms of CPU: the least of three times, since unlike work that is slow by itself, a
 * neighbour on the machine or the collection of garbage does not come three times.
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
