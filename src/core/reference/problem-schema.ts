import { z } from 'zod';
import type { ErrorCode } from '../errors.js';
import { statusByCode } from '../http/problem.js';

const errorCodes = Object.keys(statusByCode) as [ErrorCode, ...ErrorCode[]];

const errorCode = z.enum(errorCodes).meta({
  id: 'ErrorCode',
  description:
    'The stable word for what went wrong; switch on it. Each is explained at `/docs/errors#<code>`. New codes may be added.',
});

const errorPlaceSchema = z
  .object({
    index: z
      .int()
      .min(0)
      .optional()
      .meta({ description: 'The item of the list, counted from 0, where the place lies in one.' }),
    pointer: z
      .string()
      .meta({ description: 'RFC 6901 JSON pointer into the request body; empty for the body itself.' }),
    code: errorCode,
    detail: z.string().meta({ description: 'What is wrong at this place, for a person.' }),
  })
  .meta({ id: 'ErrorPlace', description: 'One offending place of the request body.' });

/** RFC 9457 problem details, as every failure is answered. */
export const problemSchema = z
  .object({
    type: z.string().meta({
      format: 'uri-reference',
      description: 'The address of the explanation of the code.',
    }),
    title: z.string().meta({ description: 'The status in words, as in HTTP: `Forbidden`.' }),
    status: z.int().min(400).max(599).meta({ description: 'The HTTP status.' }),
    code: errorCode,
    detail: z
      .string()
      .meta({ description: 'What went wrong this time, for a person. Its wording may change.' }),
    requestId: z.string().meta({
      description: 'The `X-Request-Id` of the answer; it finds the request in the log of the service.',
    }),
    errors: z.array(errorPlaceSchema).optional().meta({
      description: 'Every offending place, in the order of the body; present where places can be named.',
    }),
  })
  .meta({ id: 'Problem', description: 'RFC 9457 problem details with a stable `code`.' });
