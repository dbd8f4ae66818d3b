export interface Place {
  /** ICAO id of a station, or `INDEX-MIAMI` for an area. */
  id: string;
  city: string;
  name: string;
  latitude: number;
  longitude: number;
  /** IANA name, for venue times given by the local clock. */
  timeZone: string;
  /** Local standard time minus UTC. Applies all year: climate days ignore summer time. */
  standardOffsetHours: number;
}
