/**
 * Uses the server's format regardless of the browser's language, because the server formats some of the times on a
 * page.
 */
const short = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

/** Converts times to the reader's time zone. Tooltips stay in UTC. */
export function localTimes(root) {
  const times = root.querySelectorAll('time[data-zoned]');
  if (times.length === 0) return;
  for (const time of times) time.textContent = short.format(new Date(time.dateTime));
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const hint = matchMedia('(hover: hover)').matches ? ' Hover over a time for UTC.' : '';
  for (const note of root.querySelectorAll('[data-zone-note]'))
    note.textContent = `Times that do not say UTC are in your time zone (${zone}); days and months are in UTC.${hint}`;
}
