import { groupBy } from '../../core/collections.js';

/** A model version and the date of its first run, as announced by its center. */
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

/** By model name, oldest first. Sources: NWS Service Change Notices for the NBM; ECMWF, IFS cycle 50r1. */
export const knownVersions: Readonly<Record<string, readonly ModelVersion[]>> = {
  nbm,
  nbs: nbm,
  ecmwf: [{ version: '50r1', from: '2026-05-12' }],
};

export type SeenVersion = ReturnType<typeof seenVersions>[number];

/**
 * Returns versions by model, oldest first: the versions that the model's runs state, or else the known ones. The first
 * stated version is not a break.
 * @param stated oldest first, with null for runs that state none
 */
export function seenVersions(
  models: readonly string[],
  stated: readonly { model: string; version: string | null; from: string }[],
  { since, asOf }: { since: string; asOf: string },
) {
  const named = groupBy(stated, ({ model }) => model);
  return [...new Set([...models, ...named.keys()])].flatMap((model) => {
    const own = named.get(model) ?? [];
    const states = own.some(({ version }) => version !== null);
    const versions = states ? own : (knownVersions[model] ?? []);
    return versions.flatMap(({ version, from }, i) =>
      version === null || from > asOf
        ? []
        : [{ model, version, from, isBreak: from > since && (!states || i > 0) }],
    );
  });
}

export const versionOn = (versions: readonly ModelVersion[] | undefined, date: string): string | undefined =>
  versions?.findLast(({ from }) => from <= date)?.version;

/** Marks rows whose version differs from the latest date's version. */
export function markOlder<T extends { version?: string | null | undefined }>(
  rows: readonly T[],
  dateOf: (row: T) => string | number,
): (T & { isOlder?: true })[] {
  let newest: T | undefined;
  for (const row of rows) if (!newest || dateOf(row) >= dateOf(newest)) newest = row;
  return rows.map((row) => (row.version === newest!.version ? row : { ...row, isOlder: true as const }));
}
