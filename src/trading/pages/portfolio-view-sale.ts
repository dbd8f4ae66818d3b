import type { FormState } from '../../core/pages/form.js';
import { formatDollars } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { nameMarket } from '../market/portfolio-names.js';
import type { Sale, SaleQuote } from './portfolio-sale.js';
import type { Holding } from '../ledger/positions.js';
import { formatMoney, formatPrice, sellAddress, toChange, toMarketView } from './portfolio-view-text.js';
import { perContract, subtractCounts } from '../market/contracts.js';

interface SalePage {
  position: Holding & { ticker: string };
  form: FormState;
  preview: { sale: Sale | undefined; quote: SaleQuote | undefined; blocked: string | undefined } | undefined;
  snapshot: Snapshot | undefined;
}

/** The page before a sale: what is held, the form, and what it brings as things stand. */
export function toSaleView({ position, form, preview, snapshot }: SalePage) {
  const { ticker, side, contracts, cost } = position;
  const proposed = preview?.sale && {
    contracts: String(preview.sale.contracts),
    limitPrice: formatDollars(preview.sale.limitPrice).replace(/0{1,2}$/, ''),
  };
  return {
    action: sellAddress(ticker),
    market: toMarketView(nameMarket(ticker, snapshot?.markets.get(ticker))),
    side,
    held: contracts,
    cost: formatMoney(cost),
    averagePrice: formatPrice(perContract(cost, contracts)),
    asOf: snapshot?.asOf ?? null,
    form: { ...form, values: { ...proposed, ...form.values } },
    blocked: preview?.blocked,
    quote: preview?.quote && preview.sale && toQuoteView(preview.quote, preview.sale),
  };
}

function toQuoteView(quote: SaleQuote, { contracts }: Sale) {
  const { fills, filledContracts, averagePrice, fees, balanceChange, realised, left } = quote;
  return {
    filledContracts,
    unfilled: subtractCounts(contracts, filledContracts),
    averagePrice: averagePrice === null ? null : formatPrice(averagePrice),
    fees: formatMoney(fees),
    proceeds: formatMoney(balanceChange),
    realised: toChange(realised),
    result: toChange(realised - fees),
    left: left.contracts,
    fills: fills.map((fill) => ({
      price: formatPrice(fill.price),
      contracts: fill.contracts,
      fee: formatMoney(fill.fee),
      proceeds: formatMoney(fill.balanceChange),
    })),
  };
}
