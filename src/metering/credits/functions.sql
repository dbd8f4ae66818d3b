drop function if exists gauge_burn(
  uuid[], numeric[], timestamptz[], timestamptz[], text[], int[], int[], int[], uuid[], numeric[], uuid[], timestamptz[], numeric[], timestamptz, bool
);
--> statement-breakpoint
-- Brings an account up to `at_time` (expiry, rollover, repayment of overdrafts), then burns `costs[i]` for the product `asked[i]`
-- and the hour `hours[i]`, in that order. An account without a row is ten empty arrays. `took_*` are the ledger's entries.
-- Reads no table, so the result is the same on every server and for every shard. A spent grant leaves the arrays; an expired
-- one stays for 8 days, because an event may come up to 7 days late.
create or replace function gauge_burn(
  inout grants uuid[], inout rests numeric[], inout starts timestamptz[], inout ends timestamptz[], inout scopes text[],
  inout priorities int[], inout roll_percents int[], inout roll_days int[], inout debtors uuid[], inout debts numeric[],
  asked uuid[], hours timestamptz[], costs numeric[], at_time timestamptz,
  out took_kinds text[], out took_from uuid[], out took_for uuid[], out took_hours timestamptz[], out took numeric[]
) language plpgsql immutable as $$
declare
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
  is_changed bool := false;
  cost numeric;
  part numeric;
  p int;
begin
  for g in 1..cardinality(grants) loop
    if rests[g] > 0 and ends[g] <= at_time and roll_percents[g] > 0 then
      part := trim_scale(rests[g] * roll_percents[g] * 0.01);
      took_kinds := took_kinds || 'roll'::text; took_from := took_from || grants[g]; took_for := took_for || nobody;
      took_hours := took_hours || ends[g]; took := took || part;
      if rests[g] > part then
        took_kinds := took_kinds || 'expire'::text; took_from := took_from || grants[g]; took_for := took_for || nobody;
        took_hours := took_hours || ends[g]; took := took || rests[g] - part;
      end if;
      rests[g] := part;
      ends[g] := ends[g] + make_interval(hours => 24 * roll_days[g]);
      roll_percents[g] := 0;
      is_changed := true;
    end if;
    if rests[g] > 0 and ends[g] <= at_time - interval '192 hours' then
      took_kinds := took_kinds || 'expire'::text; took_from := took_from || grants[g]; took_for := took_for || nobody;
      took_hours := took_hours || ends[g]; took := took || rests[g];
      rests[g] := 0;
    end if;
    is_changed := is_changed or rests[g] = 0;
  end loop;
  if is_changed then
    select coalesce(array_agg(u.id order by u.priority, u.end_at, u.id), '{}'), coalesce(array_agg(u.rest order by u.priority, u.end_at, u.id), '{}'),
      coalesce(array_agg(u.start_at order by u.priority, u.end_at, u.id), '{}'), coalesce(array_agg(u.end_at order by u.priority, u.end_at, u.id), '{}'),
      coalesce(array_agg(u.scope order by u.priority, u.end_at, u.id), '{}'), coalesce(array_agg(u.priority order by u.priority, u.end_at, u.id), '{}'),
      coalesce(array_agg(u.roll_percent order by u.priority, u.end_at, u.id), '{}'), coalesce(array_agg(u.days order by u.priority, u.end_at, u.id), '{}')
    into grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days
    from unnest(grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
      as u (id, rest, start_at, end_at, scope, priority, roll_percent, days)
    where u.rest > 0;
  end if;
  if cardinality(debtors) > 0 then
    for d in 1..cardinality(debtors) loop
      for g in 1..cardinality(grants) loop
        exit when debts[d] = 0;
        if rests[g] > 0 and starts[g] <= at_time and ends[g] > at_time
          and (scopes[g] = '' or position(debtors[d]::text in scopes[g]) > 0) then
          part := least(debts[d], rests[g]);
          rests[g] := rests[g] - part;
          debts[d] := debts[d] - part;
          took_kinds := took_kinds || 'repay'::text; took_from := took_from || grants[g]; took_for := took_for || debtors[d];
          took_hours := took_hours || date_bin('1 hour', at_time, timestamptz '2000-01-01 00:00:00+00'); took := took || part;
        end if;
      end loop;
    end loop;
    if 0 = any (debts) then
      select coalesce(array_agg(u.id), '{}'), coalesce(array_agg(u.debt), '{}') into debtors, debts
      from unnest(debtors, debts) as u (id, debt) where u.debt > 0;
    end if;
  end if;
  for d in 1..cardinality(asked) loop
    cost := costs[d];
    for g in 1..cardinality(grants) loop
      exit when cost = 0;
      if rests[g] > 0 and ends[g] > hours[d] and starts[g] <= at_time
        and (scopes[g] = '' or position(asked[d]::text in scopes[g]) > 0) then
        part := least(cost, rests[g]);
        rests[g] := rests[g] - part;
        cost := cost - part;
        took_kinds := took_kinds || 'burn'::text; took_from := took_from || grants[g]; took_for := took_for || asked[d];
        took_hours := took_hours || hours[d]; took := took || part;
      end if;
    end loop;
    if cost > 0 then
      p := array_position(debtors, asked[d]);
      if p is null then
        debtors := debtors || asked[d];
        debts := debts || cost;
      else
        debts[p] := debts[p] + cost;
      end if;
      took_kinds := took_kinds || 'burn'::text; took_from := took_from || asked[d]; took_for := took_for || asked[d];
      took_hours := took_hours || hours[d]; took := took || cost;
    end if;
  end loop;
end $$;
--> statement-breakpoint
-- Credits that an account has left for each product once the holds (`held[i]` is a product) have burned theirs. Holds may
-- arrive in any order: a hold that lacks credits takes those that earlier holds took from its grants, as far as other grants
-- can pay for the earlier ones.
create or replace function gauge_rooms(
  grants uuid[], rests numeric[], starts timestamptz[], ends timestamptz[], scopes text[],
  priorities int[], roll_percents int[], roll_days int[], debtors uuid[], debts numeric[],
  held uuid[], costs numeric[], products uuid[], at_time timestamptz
) returns table (product uuid, room numeric) language sql immutable as $$
  with b as materialized (
    select * from gauge_burn(grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days, debtors, debts,
      held, array_fill(at_time, array[cardinality(held)]), costs, at_time)
  ), g as materialized (
    select u.* from b, unnest(b.grants, b.rests, b.starts, b.ends, b.scopes) as u (id, rest, start_at, end_at, scope)
    where u.start_at <= at_time and u.end_at > at_time
  ), t as materialized (
    select u.* from b, unnest(b.took_kinds, b.took_from, b.took_for, b.took) as u (kind, grant_id, product_id, amount) where u.kind = 'burn'
  )
  select p.id, greatest(0, coalesce((
      select sum(g.rest) from g where g.scope = '' or position(p.id::text in g.scope) > 0
    ), 0) - coalesce((select b.debts[array_position(b.debtors, p.id)] from b), 0) - coalesce((
      select sum(least(lack.amount, (
        select coalesce(sum(t.amount), 0) from t join g on g.id = t.grant_id
        where t.product_id <> lack.product_id and (g.scope = '' or position(lack.product_id::text in g.scope) > 0)
          and exists (
            select from g rest where rest.rest > 0
              and (rest.scope = '' or position(p.id::text in rest.scope) > 0 and position(t.product_id::text in rest.scope) > 0)
          )
      )))
      from (select t.product_id, sum(t.amount) as amount from t where t.grant_id = t.product_id and t.product_id <> p.id group by 1) lack
    ), 0))
  from unnest(products) as p (id)
$$;
