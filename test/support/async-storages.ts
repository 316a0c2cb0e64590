import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Runs before each file. Each file loads its own copies of the modules, with their own AsyncLocalStorage objects. Node 20 and
 * 22 ask every one that was ever used at each new promise, for as long as the process lives: a worker that has had 60 files
 * would be several times slower. So those of the files before are switched off; one that is used again switches itself on.
 */
type Storage = AsyncLocalStorage<unknown>;
type Method = (this: Storage, ...values: unknown[]) => unknown;
const USED = Symbol.for('used by the test files of this worker');

/** One for all files of a worker: Jest shares the modules of Node between them. */
const shared = AsyncLocalStorage.prototype as unknown as Record<'run' | 'enterWith', Method> & {
  [USED]?: Set<Storage>;
};

function watched(): Set<Storage> {
  const used = new Set<Storage>();
  for (const name of ['run', 'enterWith'] as const) {
    const original = shared[name];
    shared[name] = function (...values) {
      used.add(this);
      return original.apply(this, values);
    };
  }
  return used;
}

const used = (shared[USED] ??= watched());
for (const storage of used) storage.disable();
used.clear();
