import { z } from 'zod';

const MAX_POINTS = 5_000;
const MAX_MEMBERS = 100;

const pointSchema = z.looseObject({
  /** The minute, ms since 1970. */
  t: z.int(),
  /** °F in hundredths; left out while there is no value. */
  v: z.number().min(-100).max(150).optional(),
  status: z.string(),
  /** Only on points that were filled in afterwards: nothing settles on them. */
  receipt_basis: z.string().optional(),
});
export type IndexPoint = z.output<typeof pointSchema>;

/** `GET /live_data/weather/{city}` (OpenAPI 3.32). */
export const indexAnswerSchema = z.looseObject({
  city: z.string(),
  units: z.literal('fahrenheit'),
  timeseries: z.array(pointSchema).max(MAX_POINTS).nullish(),
});

const calibrationSchema = z.looseObject({
  config_version: z.string().max(200),
  effective_at_ms: z.int(),
  city_reference_c: z.number(),
  stations: z
    .array(z.looseObject({ station_id: z.string().max(50), weight: z.number(), offset_c: z.number() }))
    .max(MAX_MEMBERS),
});

/** `GET /live_data/weather/{city}/calibrations`: all that ever were, oldest first. */
export const calibrationsAnswerSchema = z.looseObject({
  city: z.string(),
  units: z.literal('celsius'),
  calibrations: z.array(calibrationSchema).max(10_000),
});
