/** Deliveries under way in one instance. */
const IN_FLIGHT = 1024;
/** Of those, what endpoints have together that have not shown that they answer fast. */
const IN_FLIGHT_UNPROVEN = 768;
/** Of an endpoint that nothing is known of. */
const FIRST_ROOM = 4;
const MOST_ROOM = 64;
const FAST_MS = 1_000;
/** Endpoints that are remembered: each look for what is due is told of them. */
const MAX_KNOWN = 1_000;

interface Receiver {
  inFlight: number;
  /** How many may be under way at once. */
  room: number;
}

/**
 * How many deliveries each endpoint gets at once: more with each fast answer, half with each slow or failing one. So endpoints
 * that hang hold few of the places, and those that answer never wait for them.
 */
export function createReceivers() {
  const known = new Map<string, Receiver>();
  let inFlight = 0;
  let unproven = 0;
  const isUnproven = ({ room }: Receiver) => room <= FIRST_ROOM;

  function change(id: string, apply: (receiver: Receiver) => void): void {
    const receiver = known.get(id) ?? { inFlight: 0, room: FIRST_ROOM };
    if (isUnproven(receiver)) unproven -= receiver.inFlight;
    inFlight -= receiver.inFlight;
    apply(receiver);
    if (isUnproven(receiver)) unproven += receiver.inFlight;
    inFlight += receiver.inFlight;
    // The latest last: what is forgotten first has been idle for longest.
    known.delete(id);
    known.set(id, receiver);
    if (known.size > MAX_KNOWN)
      for (const [oldest, { inFlight }] of known)
        if (inFlight === 0) {
          known.delete(oldest);
          break;
        }
  }

  return {
    free: () => IN_FLIGHT - inFlight,
    begin: (id: string) => change(id, (receiver) => receiver.inFlight++),
    finish: (id: string, { isOk, durationMs }: { isOk: boolean; durationMs: number }) =>
      change(id, (receiver) => {
        receiver.inFlight--;
        receiver.room =
          isOk && durationMs < FAST_MS
            ? Math.min(MOST_ROOM, receiver.room + 1)
            : Math.max(1, Math.floor(receiver.room / 2));
      }),
    /** The room that endpoints have now, where it is not `others`. */
    rooms() {
      const left = Math.max(0, IN_FLIGHT_UNPROVEN - unproven);
      const ids = [...known.keys()];
      const rooms = [...known.values()].map((receiver) => {
        const room = Math.max(0, receiver.room - receiver.inFlight);
        return isUnproven(receiver) ? Math.min(room, left) : room;
      });
      return { ids, rooms, others: Math.min(FIRST_ROOM, left) };
    },
  };
}
