import v8 from 'node:v8';
import vm from 'node:vm';

/**
 * Makes V8 collect old memory once it has grown by half. By default it waits until a process has grown by up to four times:
 * under full load the server took 280 MB instead of 180, at the same speed (bench/README.md).
 */
export function limitHeapGrowth(): void {
  v8.setFlagsFromString('--heap-growing-percent=50');
}

/** Collects what the start left behind, because growth is counted from the first collection. Takes about 40 ms. */
export function collectGarbage(): void {
  v8.setFlagsFromString('--expose-gc');
  (vm.runInNewContext('gc') as () => void)();
}
