export interface Place {
  /** ICAO id of a station, or `INDEX-MIAMI` for an area. */
  id: string;
  city: string;
  name: string;
  latitude: number;
  longitude: number;
  /** IANA, for times that the venue gives by the local clock. */
  timeZone: string;
  /** From UTC. Climate days ignore daylight saving time. */
  standardOffsetHours: number;
}
