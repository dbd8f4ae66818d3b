/** Where the process stands between start and end; `/readyz` and the drain answer from it. */
export interface Lifecycle {
  state: 'starting' | 'ready' | 'draining';
}

export function createLifecycle(): Lifecycle {
  return { state: 'starting' };
}
