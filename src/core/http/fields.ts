import { z } from 'zod';

export const idField = (description: string) => z.uuid().meta({ description });

export const timeField = (description: string) =>
  z.iso.datetime().meta({ description: `${description} RFC 3339 in UTC, ending in \`Z\`.` });

const withDigits = (description: string) =>
  `${description} An exact decimal with all its digits. Read it with a decimal parser if more than 15 digits matter.`;

/** A decimal from Postgres, sent with all its digits. */
export const exactField = (description: string) =>
  z
    .number()
    .min(0)
    .meta({ description: withDigits(description) });

export const signedField = (description: string) => z.number().meta({ description: withDigits(description) });

export const periodSchema = z
  .object({
    start: timeField('Inclusive.'),
    end: timeField('Exclusive.'),
  })
  .meta({ id: 'Period', description: 'A calendar month in UTC.' });

export const nextCursorField = z
  .string()
  .nullable()
  .describe('Pass it as `cursor` to get the next page; `null` on the last page.');

export const textField = (description: string) => z.string().describe(description);

export const textOrNull = (description: string) => z.string().nullable().describe(description);

export const numberField = (description: string) => z.number().describe(description);

export const numberOrNull = (description: string) => z.number().nullable().describe(description);

export const integerField = (description: string) => z.int().describe(description);

export const integerOrNull = (description: string) => z.int().nullable().describe(description);

export const booleanField = (description: string) => z.boolean().describe(description);

/** In a query. */
export const flagInput = z.enum(['true', 'false'], 'must be true or false');

/** The API reference and the clients show the object under this name. */
export const namedObject = <T extends z.ZodRawShape>(id: string, shape: T) => z.object(shape).meta({ id });

/** For a request: an unknown field is an error. */
export const namedInput = <T extends z.ZodRawShape>(id: string, shape: T) =>
  z.strictObject(shape).meta({ id });
