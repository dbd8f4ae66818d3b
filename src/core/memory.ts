import v8 from 'node:v8';
import vm from 'node:vm';

/** V8's default lets the old generation grow fourfold: 280 MB under load instead of 180 (bench/README.md). */
export function limitHeapGrowth(): void {
  v8.setFlagsFromString('--heap-growing-percent=50');
}

/** Growth is measured from the first collection. Takes about 40 ms. */
export function collectGarbage(): void {
  v8.setFlagsFromString('--expose-gc');
  (vm.runInNewContext('gc') as () => void)();
}
