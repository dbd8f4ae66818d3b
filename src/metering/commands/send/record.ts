export interface SourceRecord {
  /**
   * Position in the input, which increases from record to record: the line where the record starts, or its 1-based
   * index in a JSON document.
   */
  number: number;
  /** RFC 6901 pointer to the record in a JSON document; undefined for line-based formats. */
  pointer?: string;
  /** Property names on the path from the root of a JSON document to the record: `$1`, `$2` and so on. */
  keys: readonly string[];
  value: unknown;
  /** True if the record is a row of Gauge's own CSV file of events. */
  isOwnExport?: boolean;
  /** Index of the element that `--each` made this record of. */
  element?: number;
  /** Why the record cannot be mapped; if set, `value` is the record's raw text. */
  problem?: string;
  /** Number of bytes of the file read when this record was produced. */
  position: number;
}

/** Why one record cannot be mapped. */
export class UnmappedError extends Error {}

export const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
