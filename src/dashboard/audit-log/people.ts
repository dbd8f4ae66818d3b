import type { Orm } from '../../core/db/client.js';
import { isUuid } from '../../core/http/path-id.js';
import { findPeople } from '../../audit/queries.js';

/** Who did something. */
export interface Actor {
  /** As it is stored. */
  id: string;
  /** What to call them. */
  name: string;
  email: string | null;
  /** A word about who they are, where the name does not say it. */
  note: string | null;
}

/**
 * Who stands behind the actors of a log; one query for all. Only actors that were read from the Organization's own log may be
 * asked for: whoever knows the id of a User elsewhere must learn nothing by it.
 */
export async function readActors(
  orm: Orm,
  orgId: string,
  actors: Iterable<string>,
): Promise<(actor: string) => Actor> {
  const ids = [...new Set(actors)].filter((actor) => isUuid(actor));
  const people = ids.length === 0 ? [] : await findPeople(orm, orgId, ids);
  const byId = new Map(people.map((person) => [person.id, person]));
  return (id) => {
    const person = byId.get(id);
    if (person)
      return {
        id,
        name: person.name,
        email: person.email,
        note: person.role === null ? 'former member' : null,
      };
    if (id === 'operator') return { id, name: 'The operator', email: null, note: 'runs this service' };
    if (id.startsWith('operator:'))
      return { id, name: `The operator (${id.slice(9)})`, email: null, note: 'runs this service' };
    if (id === 'system') return { id, name: 'The service', email: null, note: 'by itself' };
    return {
      id,
      name: 'A former member',
      email: null,
      note: isUuid(id) ? `account removed, id ${id}` : id,
    };
  };
}
