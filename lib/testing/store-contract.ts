import { describeCancel } from './store-contract-cancel.js';
import { describeCleaning, describeSetup } from './store-contract-keeping.js';
import { describeDead } from './store-contract-dead.js';
import { describeDedupKeys } from './store-contract-dedup.js';
import { describeEdge } from './store-contract-edge.js';
import { describeNamedIds } from './store-contract-ids.js';
import { describeInsert } from './store-contract-insert.js';
import { describeLeases } from './store-contract-leases.js';
import { describeHasten } from './store-contract-hasten.js';
import { describeRowLocks } from './store-contract-locks.js';
import { describeStates } from './store-contract-states.js';
import { describeGlobalOrder, describeScheduled, describeUnordered } from './store-contract-scheduled.js';
import { describeOperators } from './store-contract-operators.js';
import { describeParked } from './store-contract-parked.js';
import { describeRaces } from './store-contract-races.js';
import { describePayloads } from './store-contract-payloads.js';
import { describeReady } from './store-contract-ready.js';
import { describeGlobalWake, describeWake } from './store-contract-wake.js';
import { StoreRun, type StoreHarness } from './store-harness.js';
import type { ContractRunner } from './transport-harness.js';

/**
 * Checks that a store keeps the contract of `OutboxStore`, on a real database. Runs in any runner with `describe`, `it`,
 * `beforeAll` and `afterAll`, as globals or handed over.
 */
export function describeStoreContract(
  name: string,
  harness: StoreHarness,
  runner: ContractRunner = globalThis as unknown as ContractRunner,
): void {
  const { describe, beforeAll, afterAll } = runner;
  describe(`store contract: ${name}`, () => {
    const run = new StoreRun(harness, runner);
    beforeAll(() => run.start());
    afterAll(() => run.stop());
    if (harness.settings.ordering === 'global') {
      describeGlobalOrder(run);
      return describeGlobalWake(run);
    }
    describeInsert(run);
    describeLeases(run);
    describeReady(run);
    if (harness.proof === 'snapshot') describeEdge(run);
    describePayloads(run);
    describeParked(run);
    describeHasten(run);
    if (run.ordered) describeScheduled(run);
    else describeUnordered(run);
    describeDead(run);
    describeOperators(run);
    describeCancel(run);
    describeStates(run);
    describeDedupKeys(run);
    describeNamedIds(run);
    if (run.ordered) describeWake(run);
    describeRaces(run);
    describeRowLocks(run);
    describeCleaning(run);
    describeSetup(run);
  });
}

export type { OpenTransaction, StoreHarness } from './store-harness.js';
