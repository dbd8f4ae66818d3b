/** Removes control characters: text from outside may contain escape sequences for the terminal. */
export const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');
