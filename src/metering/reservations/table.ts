export const reservationStates = ['held', 'settled', 'released', 'expired'] as const;

export type ReservationStatus = (typeof reservationStates)[number];
