/** No service ever issues it. */
export const exampleSecret = (mode: 'live' | 'test', word: string, begin = 'org') =>
  `${begin}_${mode}_${word.padEnd(32, '0')}`;

/** Each part of the service adds its own fixtures. The examples' test creates them row by row. */
export const exampleWorld = {
  now: '2026-01-31T12:00:00.000Z',
  createdAt: '2026-01-05T09:00:00.000Z',
  unknownSecret: exampleSecret('live', 'Unknown'),
  unknownServiceSecret: exampleSecret('live', 'Unknown', 'service'),
  unknownId: '019b8d9a-6400-7000-8000-0000000000ff',
} as const;
