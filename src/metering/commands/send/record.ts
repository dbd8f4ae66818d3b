export interface SourceRecord {
  /** Increases from record to record: the line where it starts, or its 1-based index in a JSON document. */
  number: number;
  /** RFC 6901, in a JSON document. */
  pointer?: string;
  /** From the root of a JSON document: `$1`, `$2` and so on. */
  keys: readonly string[];
  value: unknown;
  /** A row of Gauge's own CSV file of events. */
  isOwnExport?: boolean;
  /** In the list of `--each`. */
  element?: number;
  /** Set if the record cannot be mapped; `value` is then its raw text. */
  problem?: string;
  /** Bytes of the file read so far. */
  position: number;
}

export class UnmappedError extends Error {}

export const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
