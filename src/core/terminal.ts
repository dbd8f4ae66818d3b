/** Text from outside may hold sequences that a terminal obeys. */
export const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');
