import type { OutboxHooks } from '../../observe/events.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Blame } from '../../transports/transport.js';

/** Failures of the batches at hand: they are told once for all of a batch that failed alike. */
export class Failures {
  private readonly alike = new Map<
    string,
    { batch: number; blame: Blame; error: string; exampleId: string; count: number }
  >();

  note({ batch, id }: OutboxMessage, blame: Blame, error: string): void {
    const name = `${batch} ${blame} ${error}`;
    const known = this.alike.get(name);
    if (known !== undefined) known.count += 1;
    else this.alike.set(name, { batch, blame, error, exampleId: id, count: 1 });
  }

  tell(hooks: OutboxHooks, transport: string): void {
    for (const failure of this.alike.values()) hooks.emit('failed', { transport, ...failure });
    this.alike.clear();
  }
}
