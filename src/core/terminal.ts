/** External text may contain terminal escape sequences. */
export const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n');
