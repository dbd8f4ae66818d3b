import v8 from 'node:v8';
import vm from 'node:vm';

/**
 * By default V8 lets its old generation grow fourfold: under full load the server used 280 MB instead of 180 MB, at the
 * same speed (bench/README.md).
 */
export function limitHeapGrowth(): void {
  v8.setFlagsFromString('--heap-growing-percent=50');
}

/** Growth is measured from the first collection. Takes about 40 ms. */
export function collectGarbage(): void {
  v8.setFlagsFromString('--expose-gc');
  (vm.runInNewContext('gc') as () => void)();
}
