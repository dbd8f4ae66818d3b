import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../core/db/client.js';
import { temperatureKinds } from '../market/market.js';
import type { Gate, GateBook } from '../signals/gate.js';
import { judgedSince } from './gate-rule.js';
import { gateKeys, judgeGate, recordsKnown, type JudgedRecord } from './judge-gates.js';
import { listJudgedRecords, type Sources } from './queries.js';

/** Judges all gates by what the database knew at a time, one after the other: requests go in between. */
export async function readGates({ orm }: Database, sources: Sources, at: Date): Promise<GateBook> {
  const records: JudgedRecord[] = [];
  for (const kind of temperatureKinds)
    records.push(...(await listJudgedRecords(orm, sources, { kind, since: judgedSince(at), settledBy: at })));
  const known = recordsKnown(records, at);
  const gates: Gate[] = [];
  for (const key of gateKeys()) {
    gates.push(judgeGate(known, key));
    await nextTurn();
  }
  return Object.freeze({ madeAt: at, gates });
}
