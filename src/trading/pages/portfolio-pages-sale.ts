import type { Request, Response, Router } from 'express';
import { isFreshId, newFormId } from '../../api-keys/fresh-id.js';
import { managingRoles } from '../../api-keys/views.js';
import { byMember } from '../../identity/session/authority.js';
import { requireRole, sessionOf } from '../../identity/session/session.js';
import type { Context } from '../../core/http/context.js';
import { AppError, type ErrorCode } from '../../core/errors.js';
import {
  fieldError,
  formRoute,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { readQuery, tryQuery } from '../../core/pages/query-form.js';
import { viewMarket } from '../orders/judge.js';
import { bookHash, withoutTaken } from '../orders/paper-book.js';
import type { TradingServices } from '../services/services.js';
import { proposeSale, quoteSale, readSale, saleFields, type Sale, type SaleQuote } from './portfolio-sale.js';
import { findPosition, findTaken } from './queries-sale.js';
import { toSaleView } from './portfolio-view-sale.js';
import { ORDERS_PATH } from './portfolio-view-text.js';

/** What the form itself says; whoever sells can do something about it, or try again. */
const shownCodes = new Set<ErrorCode>([
  'unknown_market',
  'market_closed',
  'market_data_unavailable',
  'market_data_stale',
  'price_moved',
  'insufficient_position',
  'risk_limit',
  'idempotency_conflict',
]);

type HeldPosition = NonNullable<Awaited<ReturnType<typeof findPosition>>>;

/** What a sale would bring now; or why nothing can be sold. */
interface Preview {
  sale: Sale | undefined;
  quote: SaleQuote | undefined;
  blocked: string | undefined;
}

/** Selling a paper position, after a page that says exactly what it brings. */
export function addSalePages(router: Router, context: Context, trading: TradingServices): void {
  const { db, clock } = context;
  const { snapshots, orders } = trading;
  const mayChange = requireRole(...managingRoles);
  const path = '/portfolio/positions/:ticker/sell';

  router.get(path, mayChange, async (req, res) => {
    const position = await requireHeld(req, res);
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { contracts, limitPrice } = saleFields(query);
      const isTyped = contracts !== undefined || limitPrice !== undefined;
      return preview(res, position, isTyped ? readSale(query, position.contracts) : undefined);
    });
    await show(req, res, position, form, result);
  });

  router.post(
    path,
    mayChange,
    formRoute({
      codes: shownCodes,
      act: sell,
      async show(req, res, form) {
        const position = await requireHeld(req, res);
        const isReadable = form.errors.contracts === undefined && form.errors.limitPrice === undefined;
        const sale = isReadable ? readSale(form.values, 0) : undefined;
        const canQuote = sale && sale.contracts <= position.contracts;
        await show(req, res, position, form, canQuote && (await preview(res, position, sale)));
      },
    }),
  );

  async function sell(req: Request, res: Response, fields: FormFields): Promise<void> {
    const { orgId } = sessionOf(res);
    const position = await findPosition(db.orm, orgId, 'paper', readTicker(req));
    if (!position) throw noPosition();
    const id = textField(fields, 'id') ?? '';
    if (!isFreshId(id, clock.now())) throw fieldError('id', 'is not one that a form was given lately');
    const { trade, isRepeat } = await orders.place({
      orgId,
      mode: 'paper',
      by: byMember(res),
      idempotencyKey: id,
      ticker: position.ticker,
      side: position.side,
      action: 'sell',
      // Whether that many are held is for the order to say: the form may be sent twice.
      ...readSale(fields, 0),
      timeInForce: 'immediate_or_cancel',
    });
    res.redirect(303, `${ORDERS_PATH}/${trade.id}?done=${isRepeat ? 'repeated' : 'sold'}`);
  }

  async function requireHeld(req: Request, res: Response): Promise<HeldPosition> {
    const position = await findPosition(db.orm, sessionOf(res).orgId, 'paper', readTicker(req));
    if (!position || position.contracts === 0) throw noPosition();
    return position;
  }

  async function preview(res: Response, position: HeldPosition, wanted: Sale | undefined): Promise<Preview> {
    try {
      return await quote(res, position, wanted);
    } catch (error) {
      if (!(error instanceof AppError) || !shownCodes.has(error.code)) throw error;
      return { sale: wanted, quote: undefined, blocked: error.message };
    }
  }

  /** On the book that an order would be matched with: without what the Organization's own paper orders have taken. */
  async function quote(res: Response, position: HeldPosition, wanted: Sale | undefined): Promise<Preview> {
    const { ticker, side } = position;
    const listed = snapshots.current?.data.books.get(ticker);
    const best = listed?.[side][0]?.price;
    const asked = wanted ?? { contracts: position.contracts, limitPrice: best ?? 0n };
    if (
      wanted === undefined &&
      best === undefined &&
      snapshots.current?.markets.get(ticker)?.status === 'active'
    )
      return { sale: undefined, quote: undefined, blocked: 'Nobody bids for it at the moment.' };
    // Without a bid there is no price to judge, and what is left to say is about the market.
    const limitPrice = asked.limitPrice === 0n ? 10_000n : asked.limitPrice;
    const order = {
      ticker,
      side,
      action: 'sell' as const,
      mode: 'paper' as const,
      contracts: asked.contracts,
      limitPrice,
    };
    const { book, feeRule } = viewMarket(snapshots, order, clock.now());
    const taken = await findTaken(db.orm, sessionOf(res).orgId, ticker, bookHash(book));
    const left = withoutTaken(book, taken);
    const sale = wanted ?? proposeSale(left, position);
    if (!sale)
      return {
        sale,
        quote: undefined,
        blocked: 'Your own orders have taken all the bids of the present book.',
      };
    return { sale, quote: quoteSale(left, feeRule, position, sale), blocked: undefined };
  }

  async function show(
    req: Request,
    res: Response,
    position: HeldPosition,
    form: FormState,
    previewed: Preview | false | undefined,
  ): Promise<void> {
    const now = clock.now();
    const id = textField(form.values, 'id') ?? '';
    const { id: isOld, ...errors } = form.errors;
    const problem =
      isOld === undefined
        ? form.problem
        : 'This form was open for too long and has been renewed. Nothing was sold: please look again and send it.';
    // The id of a form that failed is used up only if an order was written with it; a new one is always right.
    const values = {
      ...form.values,
      id: res.statusCode === 200 || isOld !== undefined || id === '' ? newFormId(now) : id,
    };
    await renderPage(
      context,
      req,
      res,
      { view: 'portfolio/sell', title: 'Sell', section: 'portfolio' },
      toSaleView({
        position,
        form: { ...newForm(), values, errors, problem },
        preview: previewed || undefined,
        snapshot: snapshots.current,
      }),
    );
  }
}

/** @throws AppError not_found for what cannot be a ticker */
function readTicker({ params }: Request): string {
  const { ticker } = params;
  if (typeof ticker !== 'string' || !/^[\w.-]{1,64}$/.test(ticker)) throw noPosition();
  return ticker;
}

const noPosition = () => new AppError('not_found', 'Nothing is held of such a market.');
