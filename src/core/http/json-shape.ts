import { AppError, type ErrorCode } from '../errors.js';

export interface JsonBounds {
  /** Objects and lists within each other. */
  depth: number;
  /** Fields of one object. */
  fields: number;
  /** Values in all, whatever they are. */
  values: number;
  /** What a body with too many values is refused with. */
  tooManyValues: ErrorCode;
}

/** No body of ours comes near these; a hostile one of 4 MB has a hundred times as much. */
export const usualBounds: JsonBounds = {
  depth: 32,
  fields: 100,
  values: 20_000,
  tooManyValues: 'invalid_request',
};

/** Of a body that is a batch. */
export const batchBounds: JsonBounds = { ...usualBounds, tooManyValues: 'batch_too_large' };

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Refuses JSON that would cost far more to build and to validate than to send: one pass over the bytes, about 2 ms a
 * megabyte, where the parser takes seconds for a megabyte of distinct field names. Text that is no JSON passes.
 * @throws AppError invalid_request, or what the bounds name
 */
export function boundJson(bytes: Buffer, bounds: JsonBounds = usualBounds): void {
  /** Of each object or list that is open. */
  const isObject: boolean[] = [];
  const elements: number[] = [];
  let values = 0;
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfText(bytes, i);
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (isObject.length === bounds.depth)
          throw refuse(`The body has objects or lists more than ${bounds.depth} levels deep.`);
        isObject.push(bytes[i] === OPEN_OBJECT);
        elements.push(1);
        values++;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        isObject.pop();
        elements.pop();
        break;
      case COMMA: {
        const last = elements.length - 1;
        if (last < 0) break;
        elements[last]!++;
        values++;
        if (isObject[last] && elements[last]! > bounds.fields)
          throw refuse(`An object in the body has more than ${bounds.fields} fields.`);
        break;
      }
    }
    if (values > bounds.values)
      throw refuse(
        `The body holds more than ${bounds.values.toLocaleString('en')} values.`,
        bounds.tooManyValues,
      );
  }
}

/** The place of the quote that ends the text which begins at `start`. A loop: most texts are short. */
function endOfText(bytes: Buffer, start: number): number {
  let i = start + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}

const refuse = (detail: string, code: ErrorCode = 'invalid_request') => new AppError(code, detail);
