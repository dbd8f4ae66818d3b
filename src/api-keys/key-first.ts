/** Reads and parses input; where it does not fit, the key is judged before it: who has no good key learns nothing else. */
export async function keyFirst<T>(
  authenticate: () => Promise<unknown>,
  read: () => T | Promise<T>,
): Promise<T> {
  try {
    return await read();
  } catch (error) {
    await authenticate();
    throw error;
  }
}
