export interface Place {
  /** ICAO id of a station, or `INDEX-MIAMI` for an area. */
  id: string;
  city: string;
  name: string;
  latitude: number;
  longitude: number;
  /** IANA name, for times that the venue gives as local clock time. */
  timeZone: string;
  /** Hours of local standard time minus UTC. Applies all year, because climate days ignore daylight saving time. */
  standardOffsetHours: number;
}
