/**
 * What `work` costs this process, in ms of CPU: unlike time on the clock, it stays the same beside other work on the machine.
 */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
