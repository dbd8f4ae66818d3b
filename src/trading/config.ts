import type { ServiceConfig } from '../core/config.js';
import type { Context } from '../core/http/context.js';
import type { Micros } from './market/money.js';

export interface TradingConfig {
  marketSource: 'simulated' | 'kalshi';
  kalshi: {
    baseUrl: string;
    /** Of the venue's stream; asked only with a key. */
    wsUrl: string;
    /** Both or none: without them everything is read that the venue shows to anybody. */
    keyId: string | undefined;
    privateKeyFile: string | undefined;
    /** Only these; undefined: every series of the venue's climate category. */
    series: string[] | undefined;
  };
  forecastSource: 'simulated' | 'openmeteo' | 'http';
  openMeteoBaseUrl: string;
  /** Of the service's archive of earlier runs. */
  openMeteoHistoryBaseUrl: string;
  /** Where the operator's own model answers; always there if it is the forecast source. */
  modelUrl: string | undefined;
  nwsBaseUrl: string;
  /** What a paper account begins with. */
  paperCash: Micros;
  /** Each refresh's inputs are written here; undefined: nowhere. */
  tapeFile: string | undefined;
  /** Slug of the only Organization that may trade live; undefined: nobody may. */
  liveOrg: string | undefined;
  refreshSeconds: number;
}

export type TradingContext = Context<ServiceConfig & { trading: TradingConfig }>;
