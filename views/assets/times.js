const short = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

/** Puts times into the reader's zone. What hovers over them stays in UTC. */
export function localTimes(root) {
  for (const time of root.querySelectorAll('time[data-zoned]')) time.textContent = short.format(new Date(time.dateTime));
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const note of root.querySelectorAll('[data-zone-note]'))
    note.textContent = `Times are in your zone (${zone}), days and months in UTC. Hover over a time for UTC.`;
}
