/** `6108` as `6,108`. */
export const whole = (value: number): string => Math.round(value).toLocaleString('en');

/** `1 record`, `6,108 records`. */
export const count = (value: number, noun: string): string =>
  `${whole(value)} ${noun}${value === 1 ? '' : 's'}`;

export const rate = (count: number, seconds: number): string => whole(seconds > 0 ? count / seconds : 0);

/** `4.2 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** Text from outside may hold sequences that a terminal obeys. */
export const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');
