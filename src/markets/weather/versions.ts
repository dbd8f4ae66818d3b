/** A version of a model and the date of its first run, as its centre announced it. */
export interface ModelVersion {
  version: string;
  from: string;
}

const nbm: readonly ModelVersion[] = [
  { version: '4.1', from: '2023-01-17' },
  { version: '4.2', from: '2024-05-15' },
  { version: '4.3', from: '2025-05-27' },
  { version: '5.0', from: '2026-05-05' },
];

/**
 * By model name, oldest first. National Weather Service, Service Change Notices for the NBM; ECMWF, implementation of IFS
 * cycle 50r1.
 */
export const knownVersions: Readonly<Record<string, readonly ModelVersion[]>> = {
  nbm,
  nbs: nbm,
  ecmwf: [{ version: '50r1', from: '2026-05-12' }],
};

/** Undefined before the first known version. */
export const versionOn = (versions: readonly ModelVersion[] | undefined, date: string): string | undefined =>
  versions?.findLast(({ from }) => from <= date)?.version;

/** Marks the rows of other versions than the one of the latest date. */
export function markOlder<T extends { version?: string | null | undefined }>(
  rows: readonly T[],
  dateOf: (row: T) => string | number,
): (T & { isOlder?: true })[] {
  let newest: T | undefined;
  for (const row of rows) if (!newest || dateOf(row) >= dateOf(newest)) newest = row;
  return rows.map((row) => (row.version === newest!.version ? row : { ...row, isOlder: true as const }));
}
