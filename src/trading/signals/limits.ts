/** A quarter of what Kelly gives: an error in the probability costs far more growth than a smaller stake does. */
export const KELLY_SHARE = 0.25;
/** Shares of the bankroll, with what is held already. Every purchase of an event may lose, so their stakes are added up. */
export const MARKET_CAP = 0.05;
export const EVENT_CAP = 0.1;
/** Over all events of one climate date: what makes one city warmer than expected does so with its neighbours. */
export const DAY_CAP = 0.2;

const HOUR_MS = 60 * 60 * 1000;
/** Without a newer run than this something is wrong with the forecasts: there are four a day. */
export const MAX_RUN_AGE_MS = 24 * HOUR_MS;
/** The same for how long ago they were fetched. */
export const MAX_FORECAST_AGE_MS = 6 * HOUR_MS;
/** While the day goes on, whoever does not see the thermometer loses to those who do. Stations report every hour. */
export const MAX_OBSERVATION_AGE_MS = 2 * HOUR_MS;
