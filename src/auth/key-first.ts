/** Parses input; where it does not fit, the key is judged before it: who has no good key learns nothing else. */
export async function keyFirst<T>(authenticate: () => Promise<unknown>, parse: () => T): Promise<T> {
  try {
    return parse();
  } catch (error) {
    await authenticate();
    throw error;
  }
}
