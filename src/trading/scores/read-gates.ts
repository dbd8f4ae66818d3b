import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../db/client.js';
import { stations } from '../settlement/stations.js';
import type { Gate, GateBook } from './gate.js';
import { judgedSince } from './gate-rule.js';
import { judgeGate, recordsKnown } from './judge-gates.js';
import { LEAD_HOURS } from './leads.js';
import { listJudgedRecords, type Sources } from './queries.js';

/** Judges all gates by what the database knew at a time, one after the other: requests go in between. */
export async function readGates({ orm }: Database, sources: Sources, at: Date): Promise<GateBook> {
  const records = await listJudgedRecords(orm, sources, { since: judgedSince(at), settledBy: at });
  const known = recordsKnown(records, at);
  const gates: Gate[] = [];
  for (const { id } of stations)
    for (const lead of LEAD_HOURS) {
      gates.push(judgeGate(known, id, lead));
      await nextTurn();
    }
  return Object.freeze({ madeAt: at, gates });
}
