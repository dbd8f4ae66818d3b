import { pino, type Logger } from 'pino';

/** A log of which a person at a terminal reads the warnings, as sentences. */
export const createNoteLog = (note: (text: string) => void): Logger =>
  pino(
    { level: 'warn', base: null },
    {
      write(line) {
        const { msg, err } = JSON.parse(line) as { msg: string; err?: { message?: string } };
        note(err?.message === undefined ? msg : `${msg}: ${err.message}`);
      },
    },
  );
