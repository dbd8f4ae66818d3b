/**
 * Uses the server's format regardless of the browser's language, because the server formats some of the times on a
 * page.
 */
const minute = {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
};
const [short, exact] = [minute, { ...minute, second: '2-digit' }].map((parts) => new Intl.DateTimeFormat('en-GB', parts));

/** Converts times to the reader's time zone. Tooltips stay in UTC. */
export function localTimes(root) {
  const times = root.querySelectorAll('time[data-zoned]');
  if (times.length === 0) return;
  for (const time of times) time.textContent = (time.dataset.zoned === 'seconds' ? exact : short).format(new Date(time.dateTime));
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const hint = matchMedia('(hover: hover)').matches ? ' Hover over a time for UTC.' : '';
  for (const note of root.querySelectorAll('[data-zone-note]'))
    note.textContent = `Times that do not say UTC are in your time zone (${zone}); days and months are in UTC.${hint}`;
}
