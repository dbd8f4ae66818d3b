import type { UsageEvent } from '../../client/client.js';

/** One record of the input, before it is mapped to an event. */
export interface SourceRecord {
  /** Grows along the input: the line where the record starts, or its count from 1 in a JSON document. */
  number: number;
  /** RFC 6901 pointer to the record in a JSON document; undefined in a file of lines. */
  pointer?: string;
  /** The names on the way from the root of a JSON document to the record: `$1`, `$2` and so on. */
  keys: readonly string[];
  value: unknown;
  /** Why there is no record to map here; `value` is then the text as it was found. */
  problem?: string;
  /** How much of the input was read when this record came out, in bytes of the file. */
  position: number;
}

/** An event on its way, with its JSON: a quantity in it may have more digits than a double keeps. */
export interface OutgoingEvent {
  record: SourceRecord;
  event: UsageEvent;
  json: string;
}

export interface Refusal {
  record: SourceRecord;
  code: string;
  detail: string;
  event?: UsageEvent;
}
