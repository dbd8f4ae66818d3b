export async function until(isSo: () => boolean, forMs = 10_000): Promise<void> {
  const giveUpAt = Date.now() + forMs;
  while (!isSo()) {
    if (Date.now() > giveUpAt) throw new Error(`not so within ${forMs} ms: ${isSo.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
