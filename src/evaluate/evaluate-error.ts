/** What is wrong with the flags or the file, in words for the person at the terminal. */
export class EvaluateError extends Error {
  override name = 'EvaluateError';
}

/** What a file is called in a sentence. */
export const nameOf = (file: string): string => (file === '-' ? 'standard input' : file);
