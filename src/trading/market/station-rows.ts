import type { Evidence } from './stations.js';

interface More {
  /** What the rules' place had in it before 2026-08-14, in lower case. */
  formerPlaces: readonly string[];
  evidence?: Evidence;
}

type Row = [
  icao: string,
  city: string,
  rulesCity: string,
  name: string,
  latitude: number,
  longitude: number,
  timeZone: string,
  standardOffsetHours: number,
  office: string,
  maximum: string,
  minimum: string,
  more?: More,
];

/**
 * Sources: the rules texts of the venue's markets (station, city, former places); the weather service's station metadata
 * (coordinates, zone, office); for the evidence a comparison of the winners of 2024-08 to 2025-05 with the daily highs of
 * the same stations in the ACIS records.
 */
// prettier-ignore
export const stationRows: readonly Row[] = [
  ['KNYC', 'New York', 'New York City', 'Central Park', 40.78333, -73.96667, 'America/New_York', -5, 'OKX', 'KXHIGHNY', 'KXLOWTNYC', { formerPlaces: ['central park'], evidence: { matched: 251, compared: 252 } }],
  ['KMDW', 'Chicago', 'Chicago', 'Midway Airport', 41.78417, -87.75528, 'America/Chicago', -6, 'LOT', 'KXHIGHCHI', 'KXLOWTCHI', { formerPlaces: ['midway'] }],
  ['KMIA', 'Miami', 'Miami', 'Miami International Airport', 25.79056, -80.31639, 'America/New_York', -5, 'MFL', 'KXHIGHMIA', 'KXLOWTMIA', { formerPlaces: ['miami'], evidence: { matched: 250, compared: 252 } }],
  ['KAUS', 'Austin', 'Austin', 'Austin-Bergstrom International Airport', 30.18304, -97.67987, 'America/Chicago', -6, 'EWX', 'KXHIGHAUS', 'KXLOWTAUS', { formerPlaces: ['bergstrom'], evidence: { matched: 255, compared: 255 } }],
  ['KDEN', 'Denver', 'Denver', 'Denver International Airport', 39.84658, -104.65622, 'America/Denver', -7, 'BOU', 'KXHIGHDEN', 'KXLOWTDEN', { formerPlaces: ['denver'], evidence: { matched: 159, compared: 159 } }],
  ['KLAX', 'Los Angeles', 'Los Angeles', 'Los Angeles International Airport', 33.93806, -118.38889, 'America/Los_Angeles', -8, 'LOX', 'KXHIGHLAX', 'KXLOWTLAX', { formerPlaces: ['los angeles'] }],
  ['KPHL', 'Philadelphia', 'Philadelphia', 'Philadelphia International Airport', 39.87327, -75.22678, 'America/New_York', -5, 'PHI', 'KXHIGHPHIL', 'KXLOWTPHIL', { formerPlaces: ['philadelphia'] }],
  ['KSFO', 'San Francisco', 'San Francisco', 'San Francisco International Airport', 37.61961, -122.36558, 'America/Los_Angeles', -8, 'MTR', 'KXHIGHTSFO', 'KXLOWTSFO'],
  ['KPHX', 'Phoenix', 'Phoenix', 'Phoenix Sky Harbor International Airport', 33.4278, -112.00347, 'America/Phoenix', -7, 'PSR', 'KXHIGHTPHX', 'KXLOWTPHX'],
  ['KSEA', 'Seattle', 'Seattle', 'Seattle-Tacoma International Airport', 47.44472, -122.31361, 'America/Los_Angeles', -8, 'SEW', 'KXHIGHTSEA', 'KXLOWTSEA'],
  ['KATL', 'Atlanta', 'Atlanta', 'Hartsfield-Jackson Atlanta International Airport', 33.64028, -84.42694, 'America/New_York', -5, 'FFC', 'KXHIGHTATL', 'KXLOWTATL'],
  ['KBOS', 'Boston', 'Boston', 'Boston Logan International Airport', 42.36056, -71.01056, 'America/New_York', -5, 'BOX', 'KXHIGHTBOS', 'KXLOWTBOS'],
  ['KDFW', 'Dallas', 'Dallas', 'Dallas/Fort Worth International Airport', 32.89743, -97.02196, 'America/Chicago', -6, 'FWD', 'KXHIGHTDAL', 'KXLOWTDAL'],
  ['KDCA', 'Washington DC', 'Washington DC', 'Reagan Washington National Airport', 38.84833, -77.03417, 'America/New_York', -5, 'LWX', 'KXHIGHTDC', 'KXLOWTDC'],
  ['KLAS', 'Las Vegas', 'Las Vegas', 'Harry Reid International Airport', 36.07188, -115.1634, 'America/Los_Angeles', -8, 'VEF', 'KXHIGHTLV', 'KXLOWTLV'],
  ['KHOU', 'Houston', 'Houston', 'William P. Hobby Airport', 29.6375, -95.2825, 'America/Chicago', -6, 'HGX', 'KXHIGHTHOU', 'KXLOWTHOU'],
  ['KMSP', 'Minneapolis', 'Minneapolis', 'Minneapolis-Saint Paul International Airport', 44.88306, -93.22889, 'America/Chicago', -6, 'MPX', 'KXHIGHTMIN', 'KXLOWTMIN'],
  ['KOKC', 'Oklahoma City', 'Oklahoma City', 'Will Rogers International Airport', 35.38861, -97.60028, 'America/Chicago', -6, 'OUN', 'KXHIGHTOKC', 'KXLOWTOKC'],
  ['KMSY', 'New Orleans', 'New Orleans', 'Louis Armstrong New Orleans International Airport', 29.99278, -90.25083, 'America/Chicago', -6, 'LIX', 'KXHIGHTNOLA', 'KXLOWTNOLA'],
  ['KSAT', 'San Antonio', 'San Antonio', 'San Antonio International Airport', 29.53278, -98.46361, 'America/Chicago', -6, 'EWX', 'KXHIGHTSATX', 'KXLOWTSATX'],
  ['KSAN', 'San Diego', 'San Diego', 'San Diego International Airport', 32.73361, -117.18306, 'America/Los_Angeles', -8, 'SGX', 'KXHIGHTSAN', 'KXLOWTSAN'],
  ['KTTN', 'Trenton', 'Trenton', 'Trenton-Mercer Airport', 40.27639, -74.81639, 'America/New_York', -5, 'PHI', 'KXHIGHTTTN', 'KXLOWTTTN'],
  ['KEWR', 'Newark', 'Newark', 'Newark Liberty International Airport', 40.6825, -74.16944, 'America/New_York', -5, 'OKX', 'KXHIGHTEWR', 'KXLOWTEWR'],
  ['KSDF', 'Louisville', 'Louisville', 'Louisville Muhammad Ali International Airport', 38.17406, -85.7365, 'America/Kentucky/Louisville', -5, 'LMK', 'KXHIGHTSDF', 'KXLOWTSDF'],
];
