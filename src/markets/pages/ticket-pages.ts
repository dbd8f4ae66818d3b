import type { Request, Response, Router } from 'express';
import { isFreshId, newFormId } from '../../core/ids.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import type { Context } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import { toAddress } from '../../core/pages/address.js';
import { isManager, managingRoles } from '../../accounts/organizations/table.js';
import {
  postForm,
  fieldError,
  newForm,
  textField,
  type FormFields,
  type FormState,
  readQuery,
  requireOnce,
  tryQuery,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { forecastOf } from '../learning/forecast.js';
import { emptyBook, type Side } from '../market/book.js';
import { isPlaced, type ListedMarket } from '../market/market.js';
import { noLimitsDeclared, toEffectiveLimits } from '../risk/limits.js';
import { findLimits } from '../risk/queries.js';
import { readSwitch } from '../risk/switches.js';
import type { Snapshot, SnapshotStore } from '../snapshot/snapshot.js';
import type { MinuteBook } from '../weather/minutes.js';
import { ticketAddress } from './addresses.js';
import { requireOrder } from './order-pages.js';
import { loadingPage, toFreshness } from './freshness.js';
import type { ClimateWatch } from '../climate/watch.js';
import type { Orders } from '../orders/order.js';
import { readTakenBooks } from '../orders/queries.js';
import { replacesKey } from '../portfolio/order-queries.js';
import { findPaperCash, listPaperHoldings, listPaperPurchases } from '../ledger/queries.js';
import { nameMarket } from '../market/market-name.js';
import { toMarketView } from './labels.js';
import { impliedProbabilities } from './probabilities.js';
import { reviewOrder, type Review } from './review.js';
import { fillTicket, followOrder, pickFields, readTicket } from './ticket-form.js';
import { ticketCodes, toTicketView, type TicketFacts, type TicketInput } from './ticket-view.js';
import { feeRuleOf } from '../market/fees.js';

export interface MarketsPagesDeps {
  snapshots: SnapshotStore;
  orders: Pick<Orders, 'place' | 'preview'>;
  /** Undefined in a simulated world. */
  climate: Pick<ClimateWatch, 'crossChecks'> | undefined;
  minutes: Pick<MinuteBook, 'feedOf'> | undefined;
}

type Reviewed = Pick<TicketInput, 'refusal'> & { review: Review };

export type TicketView = ReturnType<typeof toTicketView>;

/** Renders a ticket on the desk. */
type ShowTicket = (
  req: Request,
  res: Response,
  shown: { snapshot: Snapshot; market: ListedMarket; ticket: TicketView },
) => Promise<void>;

/**
 * A GET with an order shows the review. The form that places the order carries an id, so that repeated posts place only
 * one.
 */
export function createTickets(context: Context, deps: MarketsPagesDeps) {
  const { clock } = context;
  const { refreshSeconds } = context.config.trading;

  function toView(res: Response, facts: TicketFacts, form: FormState, reviewed: Reviewed | null): TicketView {
    const { snapshot } = facts;
    const { sources } = deps.snapshots;
    const { role, marketAccess } = sessionOf(res);
    const now = new Date(clock.now());
    const { given } = facts;
    const values = { ...given, ...fill(res, facts), id: newFormId(clock.now()) };
    return toTicketView({
      ...facts,
      form: { ...form, values, problem: form.problem ?? facts.news },
      isFollowing: textField(given, 'limitPrice') === undefined,
      hasOwnSize: textField(given, 'contracts') !== undefined || values.action === 'sell',
      review: reviewed?.review ?? null,
      refusal: reviewed?.refusal,
      freshness: toFreshness(snapshot, { sources, refreshSeconds, now }),
      mayOrder: isManager(role),
      mayOpen: marketAccess === 'trade',
      role,
      error: res.locals.error as AppError | undefined,
      now,
    });
  }

  /** For a market that the reader has not opened: its ticket before anything is typed. */
  async function readView(res: Response, snapshot: Snapshot, market: ListedMarket, given: FormFields) {
    const facts = await readFacts(context, res, { snapshot, market, given });
    const reviewed = await tryReview(deps.orders, res, facts);
    const view = toView(res, facts, newForm(given), reviewed);
    return given.limitPrice ? { ...view, follows: 'Both follow the signal until you edit them.' } : view;
  }

  const showLoading = (req: Request, res: Response) =>
    renderPage(context, req, res, loadingPage, { sources: deps.snapshots.sources });

  return { toView, readView, showLoading };
}

export function addTicketRoutes(
  router: Router,
  context: Context,
  deps: MarketsPagesDeps,
  { toView, showLoading }: ReturnType<typeof createTickets>,
  show: ShowTicket,
): void {
  const { clock } = context;
  router.get('/markets/:ticker', async (req, res) => {
    const snapshot = deps.snapshots.current;
    const day = findDayOfUnlisted(snapshot, req);
    if (day !== undefined) return res.redirect(303, day);
    if (!snapshot) return showLoading(req, res);
    const market = findMarket(snapshot, req);
    const facts = await readFacts(context, res, { snapshot, market, given: readQuery(req) });
    const { given } = facts;
    const { form, result } = await tryQuery(res, given, async () => {
      requireOnce(given);
      return review(deps.orders, res, facts);
    });
    await show(req, res, { snapshot, market, ticket: toView(res, facts, form, result ?? null) });
  });

  postForm(router, '/markets/:ticker', {
    before: [requireRole(...managingRoles)],
    async act(req, res, fields) {
      const { orgId } = sessionOf(res);
      const market = deps.snapshots.current && findMarket(deps.snapshots.current, req);
      if (!market) throw new AppError('market_data_unavailable', 'No prices have been loaded yet.');
      const { ticker } = market;
      const order = readTicket(fields, market);
      const id = textField(fields, 'id') ?? '';
      if (!isFreshId(id, clock.now())) throw fieldError('id', 'is not the id of a recent form');
      const old = await findReplaced(context, res, { market, given: fields });
      const { trade, isRepeat } = await deps.orders.place({
        ...order,
        replaces: old && { id: old.id, filled: Number(textField(fields, 'filled')) },
        orgId,
        mode: 'paper',
        by: byMember(res),
        idempotencyKey: old ? `${replacesKey(old.id)}${id}` : id,
        ticker,
      });
      const done = isRepeat ? 'repeated' : 'placed';
      const shown = { ...pickFields(fields), replaces: undefined, filled: undefined, order: trade.id, done };
      const desk = toAddress(ticketAddress(ticker), shown);
      res.redirect(303, `${desk}#review`);
    },
    async show(req, res, form) {
      const snapshot = deps.snapshots.current;
      if (!snapshot) return showLoading(req, res);
      const market = findMarket(snapshot, req);
      const facts = await readFacts(context, res, { snapshot, market, given: form.values });
      const reviewed = await tryReview(deps.orders, res, facts);
      await show(req, res, { snapshot, market, ticket: toView(res, facts, renewed(form), reviewed) });
    },
    codes: ticketCodes,
  });
}

/** Null without a fee rule or an offer. */
async function review(
  orders: MarketsPagesDeps['orders'],
  res: Response,
  facts: TicketFacts,
): Promise<Reviewed | null> {
  const values = fill(res, facts);
  const { snapshot, market } = facts;
  const feeRule = feeRuleOf(snapshot.data, market);
  if (values.limitPrice === '' || !feeRule) return null;
  const order = readTicket(values, market);
  const { orgId } = sessionOf(res);
  const { ticker } = market;
  const { replaced: old } = facts;
  const terms = { ...order, ticker, replaces: old && { id: old.id, filled: old.filledContracts } };
  const asked = { ...terms, orgId, mode: 'paper', by: byMember(res), idempotencyKey: '' } as const;
  const { reserve, refusal } = await orders.preview(asked, snapshot);
  const doubt = doubtOf(snapshot, market, order.side);
  return { review: reviewOrder({ ...facts, feeRule, order, reserve, doubt }), refusal };
}

/** Null if the forecast may propose purchases. */
function doubtOf({ signals, events }: Snapshot, { ticker, eventTicker }: ListedMarket, side: Side) {
  const report = signals.events.find((event) => event.eventTicker === eventTicker);
  const event = events.find((one) => one.eventTicker === eventTicker);
  if (!report || !event) return null;
  const withheld = report.suppressed.find(
    (one) => one.ticker === ticker && one.side === side && one.isWithheld,
  );
  const because = !report.isCalibrated
    ? 'it is not proven: it is not calibrated yet'
    : report.gate.isOpen
      ? withheld?.reason
      : 'it is not proven: its gate is closed';
  if (because === undefined) return null;
  const yes = impliedProbabilities(event).get(ticker) ?? null;
  const market = yes === null || side === 'yes' ? yes : 1 - yes;
  return { because, market, isWithheld: withheld !== undefined };
}

/** Null if the form's errors prevent a review. */
const tryReview = (...of: Parameters<typeof review>): Promise<Reviewed | null> =>
  review(...of).catch((error: unknown) => {
    if (error instanceof AppError) return null;
    throw error;
  });

/** If the member may not open positions, the ticket starts with a sale. */
function fill(res: Response, { given, book, held, market }: TicketFacts) {
  const isSale = held !== undefined && sessionOf(res).marketAccess !== 'trade';
  return fillTicket(isSale ? { action: 'sell', ...given } : given, book, held, market.closeTime);
}

type Asked = Pick<TicketFacts, 'market' | 'given'>;

/** The order that the ticket changes. */
async function findReplaced({ db }: Context, res: Response, { market, given }: Asked) {
  if (!textField(given, 'replaces')) return undefined;
  const order = await requireOrder(db, res, given.replaces);
  const { side = order.side, action = order.action } = given;
  if (order.ticker === market.ticker && order.side === side && order.action === action) return order;
  throw new AppError('not_found', 'There is no such order in this market.');
}

async function readFacts(context: Context, res: Response, asked: Asked & Pick<TicketFacts, 'snapshot'>) {
  const { db, config } = context;
  const { snapshot, market } = asked;
  const { orgId } = sessionOf(res);
  const order = await findReplaced(context, res, asked);
  const { given, news } = order ? followOrder(asked.given, order) : { given: asked.given };
  const replaced = given.replaces ? order : undefined;
  const whole = snapshot.data.books.get(market.ticker) ?? emptyBook;
  const [tradingSwitch, cash, holdings, waiting, taken, limits] = await Promise.all([
    readSwitch(db.orm, orgId),
    findPaperCash(db.orm, orgId),
    listPaperHoldings(db.orm, orgId, market.eventTicker),
    listPaperPurchases(db.orm, orgId),
    readTakenBooks(db.orm, orgId, snapshot.data),
    findLimits(db.orm, orgId),
  ]);
  const day = isPlaced(market) ? forecastOf(snapshot.forecasts, market) : undefined;
  const reserved = waiting.reduce((sum, one) => sum + one.reserved, -(replaced?.reserved ?? 0n));
  return {
    snapshot,
    tradingSwitch,
    market,
    given,
    news,
    replaced,
    whole,
    book: taken.get(market.ticker) ?? whole,
    held: holdings.get(market.ticker),
    cash: (cash ?? config.trading.paperCash) - reserved,
    reserved,
    isAccountOpen: cash !== undefined,
    limits: toEffectiveLimits(limits ?? noLimitsDeclared),
    probability: day?.probabilities.get(market.ticker) ?? null,
  };
}

/** If the ticker reveals the day or hour. */
function findDayOfUnlisted(snapshot: Snapshot | undefined, req: Request): string | undefined {
  const ticker = String(req.params.ticker);
  if (!snapshot || snapshot.markets.has(ticker)) return undefined;
  const name = nameMarket(ticker, undefined);
  return name.date === null ? undefined : toMarketView(name).href;
}

function findMarket({ markets }: Snapshot, req: Request): ListedMarket {
  const market = markets.get(String(req.params.ticker));
  if (!market) throw new AppError('not_found', 'There is no such market, or it is no longer listed.');
  return market;
}

/** The form had expired. */
function renewed(form: FormState): FormState {
  const { id, ...errors } = form.errors;
  if (id === undefined) return form;
  const problem =
    'This form expired and was renewed. No order was placed. Check the new quote and place the order again.';
  return { ...form, errors, problem };
}
