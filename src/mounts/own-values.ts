import type { Request } from 'express';
import { listActivePrefixes } from '../accounts/api-keys/queries.js';
import type { ReadSession } from '../accounts/identity/session/session.js';
import type { Context } from '../core/http/context.js';
import type { OwnValues, ReadOwnPart } from '../core/reference/own-examples.js';

interface OwnValuesDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  readSession: ReadSession;
  parts: readonly ReadOwnPart[];
}

export interface SignedIn {
  /** Undefined for non-members. */
  own?: OwnValues;
  /** Signed in without an Organization, to the console. */
  isOperator?: boolean;
}

/** Empty on failure: the documentation must work without the database. */
export function createOwnValuesReader(deps: OwnValuesDeps): (req: Request) => Promise<SignedIn> {
  return async (req) => {
    try {
      const session = await deps.readSession(req);
      if (session?.orgId === null) return { isOperator: session.isOperator };
      if (!session || session.isArchived || session.lacksSecondFactor || session.lacksSingleSignOn) return {};
      return { own: await readOwnValues(deps, session.orgId) };
    } catch (error) {
      deps.log.warn({ err: error }, "the reader's own values could not be loaded for the documentation");
      return {};
    }
  };
}

async function readOwnValues({ db, clock, parts }: OwnValuesDeps, orgId: string): Promise<OwnValues> {
  const now = new Date(clock.now());
  const [prefixes, ...own] = await Promise.all([
    listActivePrefixes(db.orm, orgId, now),
    ...parts.map((read) => read(orgId, now)),
  ]);
  return {
    now,
    prefixes: {
      live: prefixes.find(({ livemode }) => livemode)?.prefix,
      test: prefixes.find(({ livemode }) => !livemode)?.prefix,
    },
    parts: own,
  };
}
