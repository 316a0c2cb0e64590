import type { BucketState, LeaseSelection } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { jsonLine } from '../terminal.js';
import { number } from '../words.js';

export const BREAK_LEASES: CliCommand = {
  name: 'break-leases',
  summary: 'End the leases of an instance that is gone, before they expire',
  options: [
    { flags: '--owner <instance>', help: 'of this instance, as "buckets" names it' },
    { flags: '--bucket <number>', help: 'of this bucket; may be given several times', many: true, read: readBucket },
    { flags: '--transport <name>', help: 'of this transport' },
    ...CONFIRM_OPTIONS,
  ],
  async run({ open, terminal, json }, given) {
    const selection = selectionOf(given);
    if (Object.keys(selection).length === 0) refuseUsage('Give one of --owner, --bucket, --transport.');
    checkConfirmable('break-leases', given, terminal);
    const outbox = await open();
    const { transport } = selection;
    const all = await outbox.answer(outbox.admin.buckets(transport === undefined ? {} : { transport }));
    const chosen = all.filter((one) => isChosen(one, selection));
    if (isDryRun(given)) {
      if (json) terminal.out(jsonLine({ action: 'break-leases', dryRun: true, count: chosen.length }));
      else terminal.out(`break-leases would end ${leases(chosen.length)}.`);
      return chosen.length === 0 ? EXIT.nothing : EXIT.ok;
    }
    if (chosen.length > 0) await confirm(`break ${leases(chosen.length)}; ${risk(chosen)}`, given, terminal);
    const { broken, owners, left } = await outbox.answer(outbox.service.breakLeases(selection));
    if (json) terminal.out(jsonLine({ action: 'break-leases', broken, owners, left }));
    else {
      terminal.out(`Ended ${leases(broken)}${broken === 0 ? '' : ` of ${owners.map(printable).join(', ')}`}.`);
      if (left > 0) terminal.say(`${leases(left)} stayed: their owner has just renewed them.`);
    }
    return broken === 0 ? EXIT.nothing : EXIT.ok;
  },
};

const leases = (count: number): string => `${number(count)} ${count === 1 ? 'lease' : 'leases'}`;

function readBucket(text: string): number {
  return /^\d{1,5}$/.test(text) ? Number(text) : refuseUsage('It must be the number of a bucket.');
}

function selectionOf({ options }: Given): LeaseSelection {
  const { owner, bucket, transport } = options as { owner?: string; bucket?: number[]; transport?: string };
  return {
    ...(owner === undefined ? {} : { owner }),
    ...(bucket === undefined ? {} : { buckets: bucket }),
    ...(transport === undefined ? {} : { transport }),
  };
}

/** The transport is chosen already. */
function isChosen({ lease, owner, bucket }: BucketState, selection: LeaseSelection): boolean {
  const isOwners = selection.owner === undefined || selection.owner === owner;
  return lease === 'leased' && isOwners && selection.buckets?.includes(bucket) !== false;
}

function risk(chosen: readonly BucketState[]): string {
  const alive = chosen.some(({ ownerIsAlive }) => ownerIsAlive);
  return alive ? 'an owner is ALIVE, and messages may go out twice' : 'none of their owners is alive';
}
