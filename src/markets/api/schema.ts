import { z } from 'zod';
import {
  booleanField,
  namedObject,
  numberField,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { marketKinds, marketStatuses } from '../market/market.js';
import { settlementSources } from '../market/rules.js';
import { stations } from '../market/stations.js';
import { contractsField } from '../market/contracts.js';
import { dollarsField } from '../market/money.js';
import { sourceSchema } from '../snapshot/schema.js';
import { bookStates } from './market-json.js';

const stationParameter = text(64)
  .optional()
  .describe('Only this station: its id, like `KNYC`, in upper or lower case.');

export const marketsQuerySchema = z.strictObject({
  station: stationParameter,
  status: z
    .enum(marketStatuses, `must be one of ${marketStatuses.join(', ')}`)
    .optional()
    .describe('Only markets with this status. Default: all except `finalized`.'),
  kind: z
    .enum(marketKinds, `must be one of ${marketKinds.join(', ')}`)
    .optional()
    .describe('Only markets of this kind.'),
  city: text(64).optional().describe('Only markets of this city, like `New York`, in upper or lower case.'),
  limit: z
    .string()
    .regex(/^([1-9]\d{0,2}|1000)$/, 'must be a whole number from 1 to 1000')
    .transform(Number)
    .optional()
    .describe('The number of markets per page, 1 to 1000. Default: all markets.'),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be a nextCursor from an earlier response')
    .optional()
    .describe('The `nextCursor` of the previous page; only with `limit`.'),
});

export const streamQuerySchema = z.strictObject({ station: stationParameter });

const price = (meaning: string) => dollarsField(`${meaning}; \`null\` without one.`).nullable();
export const count = (meaning: string) => z.int().min(0).describe(meaning);
export const probability = (meaning: string) => z.number().min(0).max(1).describe(meaning);
export const temperature = (meaning: string) => numberField(`${meaning}, °F.`);

export const dateField = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}$/)
  .describe('The climate day: midnight to midnight in local standard time.');
export const stationField = z.enum(stations.map(({ id }) => id)).describe('The id of the station.');
export const measureField = z.literal('daily_maximum_temperature');
export const unitField = z.literal('fahrenheit');

export const freshness = {
  asOf: timeField('When the markets were fetched.'),
  sources: z.array(sourceSchema).describe('The state of each source at the last refresh.'),
  ageSeconds: count('Whole seconds since `asOf`.'),
  stale: booleanField('True if the markets are older than 30 seconds.'),
};

export const marketSchema = namedObject('Market', {
  ticker: z.string(),
  eventTicker: textField(
    'The day at the station, where exactly one market pays, or the hour, where every market below the reported temperature pays.',
  ),
  seriesTicker: z.string(),
  kind: z
    .enum(marketKinds)
    .describe('The subject of the market by its rules. `other`: another subject, or an unknown wording.'),
  station: stationField
    .nullable()
    .describe(
      'The id of the station whose report decides; `null` if the market names no station, or an uncertain one.',
    ),
  city: textOrNull('`null` if the rules do not name it unambiguously.'),
  measure: z
    .enum(['daily_maximum_temperature', 'daily_minimum_temperature', 'hourly_temperature', 'precipitation'])
    .nullable(),
  date: dateField.nullable(),
  hour: z.int().min(0).max(23).nullable().describe("In the city's local time; `null` for a whole day."),
  bracket: z
    .object({
      kind: z
        .enum(['less', 'between', 'greater'])
        .describe('`between` includes both ends; `less` is below `cap`, `greater` above `floor`.'),
      floor: z.number().nullable(),
      cap: z.number().nullable(),
      unit: unitField,
      label: z.string(),
    })
    .nullable()
    .describe(
      'The temperatures for which YES pays: whole degrees for a day, hundredths for an hour; `null` if it is not certain to be a temperature.',
    ),
  label: textField('The temperatures for which YES pays, in words.'),
  problem: textOrNull(
    'Why there is no forecast or signal, so that only the venue determines the settlement. Otherwise `null`.',
  ),
  settlement: z
    .object({
      source: z
        .enum(settlementSources)
        .nullable()
        .describe('The settlement source according to the rules; `null` if they name none that is known.'),
      station: stationField.nullable(),
      rulesText: textField('The venue’s rules, word for word.'),
    })
    .describe('The settlement rules and source.'),
  status: z.enum(marketStatuses).describe("The venue's status. The market pays when it is `finalized`."),
  untradable: textOrNull(
    'Why it has no signals and its orders are refused with `market_closed`, whatever its status. Otherwise `null`.',
  ),
  yesBid: price('The best bid for YES'),
  yesAsk: price('The best ask for YES'),
  noBid: price('The best bid for NO'),
  noAsk: price('The best ask for NO'),
  yesBidSize: contractsField('Contracts at `yesBid`, and so at `noAsk`; 0 without bids.'),
  yesAskSize: contractsField('Contracts at `yesAsk`, and so at `noBid`; 0 without asks.'),
  lastPrice: price('The price of YES in the last trade'),
  volume: contractsField('Contracts traded so far.'),
  volume24h: contractsField('Contracts traded in 24 hours.'),
  openInterest: contractsField('Open interest: contracts held.'),
  openTime: timeField('When it opens.'),
  closeTime: timeField('When it closes.'),
  tickSize: dollarsField('The price step at its current price.'),
  url: textField('A page about the market; a path is on this service.'),
  bookState: z
    .enum(bookStates)
    .describe(
      "`whole`: every level is known. `best_prices`: only the best level of each side, from the venue's list. `in_doubt`: the last reliable book; orders are refused with `market_data_stale` until it has been read again.",
    ),
  bookAsOf: timeField(
    'When the book was read, if that was before the markets; otherwise `null`. No order is filled from a book older than 60 seconds.',
  ).nullable(),
});

export const marketListSchema = namedObject('MarketList', {
  markets: z.array(marketSchema).describe('Ordered by station, kind, day and bracket.'),
  nextCursor: z
    .string()
    .nullish()
    .describe('Only with `limit`: pass it as `cursor` to get the next page; `null` on the last page.'),
  ...freshness,
});
