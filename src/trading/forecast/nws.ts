/** Who asks: the National Weather Service wants to know, and may block whoever does not say. */
export const NWS_USER_AGENT = 'gauge-weather-markets/1.0';
