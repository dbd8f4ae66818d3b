import { formatDecimal } from '../../core/pages/format.js';
import { NOBODY } from '../credits/table.js';

const idOf = (number: number) => NOBODY.replace(/0$/, String(number));

export const creditsLeft = { productId: idOf(1), slug: ':left', detail: 'creditsLeft', what: 'left' };
export const creditsOfMonth = {
  productId: idOf(2),
  slug: ':month',
  detail: 'ofMonth',
  what: 'burned in a month',
};
export const creditsOfDay = { productId: NOBODY, slug: '', detail: 'credits', what: 'burned in a day' };

/** Alerts that are not on a product's cap. Ids and slugs are in place of a product's; `detail` has the level in the audit log. */
export const creditAlertKinds = [creditsLeft, creditsOfMonth, creditsOfDay];

export const creditKindOf = (productId: string | null) =>
  creditAlertKinds.find((kind) => kind.productId === productId);

export const creditLevel = (kind: typeof creditsLeft, level: string | number) =>
  `${kind === creditsLeft ? 'Fewer' : 'More'} than ${formatDecimal(level)} ${Number(level) === 1 ? 'credit' : 'credits'} ${kind.what}`;
