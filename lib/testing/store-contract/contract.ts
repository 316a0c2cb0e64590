import { describeFence } from './fence.js';
import { describeBulk } from './bulk.js';
import { describeCancel } from './cancel.js';
import { describeCleaning, describeSetup } from './keeping.js';
import { describeCopies } from './copies.js';
import { describeDead } from './dead.js';
import { describeDedupKeys } from './dedup.js';
import { describeNamedIds } from './ids.js';
import { describeInsert } from './insert.js';
import { describeInspect } from './inspect.js';
import { describeLeases } from './leases.js';
import { describeHasten } from './hasten.js';
import { describeRowLocks } from './locks.js';
import { describeStates } from './states.js';
import { describeGlobalOrder, describeScheduled, describeUnordered } from './scheduled.js';
import { describeOperators } from './operators.js';
import { describeParked } from './parked.js';
import { describePauses } from './pauses.js';
import { describeRaces } from './races.js';
import { describePayloads } from './payloads.js';
import { describeReady } from './ready.js';
import { describeGlobalWake, describeWake } from './wake.js';
import { StoreRun, type StoreHarness } from './harness.js';
import type { ContractRunner } from '../transport-contract/harness.js';

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
    if (harness.proof === 'snapshot') describeFence(run);
    describePayloads(run);
    describeParked(run);
    describeCopies(run);
    describeHasten(run);
    if (run.ordered) describeScheduled(run);
    else describeUnordered(run);
    describeDead(run);
    describeOperators(run);
    describeCancel(run);
    if (harness.changesAlone !== true) {
      describeInspect(run);
      describePauses(run);
    }
    describeBulk(run);
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

export type { OpenTransaction, StoreHarness } from './harness.js';
