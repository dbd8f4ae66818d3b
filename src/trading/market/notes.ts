/** What of the venue's answers could not be read or placed. `contradiction`: a market that says two things was left out. */
export const noteKinds = [
  'contradiction',
  'missing_field',
  'unknown_kind',
  'unknown_place',
  'unknown_result',
  'unknown_status',
  'unknown_wording',
] as const;
export type NoteKind = (typeof noteKinds)[number];

/** One kind of thing that is not as expected, with how often it was met in one read. */
export interface VenueNote {
  kind: NoteKind;
  /** What it was: the field, the status, the place. */
  name: string;
  count: number;
  /** The first of them, with its ticker. */
  example: string;
}

export interface NoteBook {
  add(kind: NoteKind, name: string, example: string): void;
  /** In the order of kinds and names. */
  list(): VenueNote[];
}

/** More different names than this are one name: a venue that has changed everything must not fill the memory. */
const MAX_NAMES = 50;
const MAX_LENGTH = 200;

export function createNoteBook(): NoteBook {
  const notes = new Map<string, VenueNote>();
  return {
    add(kind, name, example) {
      const isNew = !notes.has(`${kind} ${name}`);
      const shown = isNew && notes.size >= MAX_NAMES ? 'others' : name.slice(0, MAX_LENGTH);
      const found = notes.get(`${kind} ${shown}`);
      if (found) found.count++;
      else
        notes.set(`${kind} ${shown}`, { kind, name: shown, count: 1, example: example.slice(0, MAX_LENGTH) });
    },
    list: () => [...notes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, note]) => note),
  };
}
