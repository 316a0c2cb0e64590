import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import { decompressed } from '../../payloads/gzip.js';
import { inCleanScope } from '../../time/async-scope.js';
import { systemClock, within } from '../../time/clock.js';
import type { PublishFailure } from '../transport.js';
import { ApplicationFunctionError, blameForClient, blameForUnmade } from './blame.js';
import type { ClientKind, Packet } from './kind.js';
import { kafkaRecord, parsedPayload, placed, type RecordOption, rmqRecord } from './record.js';

export interface EventSettings {
  /** Default: the topic. */
  readonly pattern?: (message: OutboxMessage) => unknown;
  readonly record: RecordOption;
  readonly concurrency: number;
}

type Make = (message: OutboxMessage, time: number) => unknown;

const RECORDS = { kafka: kafkaRecord, rmq: rmqRecord, plain: parsedPayload };

/** Makes the arguments of `emit(pattern, data)`, and what `work` makes of them. */
export class EventMaker {
  private readonly pattern: Make;
  private readonly record: Make;

  constructor({ pattern, record }: EventSettings, kind: ClientKind) {
    this.pattern = pattern === undefined ? ({ topic }) => topic : ofApplication('pattern', pattern);
    if (typeof record === 'function') this.record = ofApplication('record', record);
    else {
      const make = RECORDS[record !== 'auto' ? record : kind === 'kafka' || kind === 'rmq' ? kind : 'plain'];
      this.record = kind === 'rmq' && pattern === undefined ? placed(make) : make;
    }
  }

  /**
   * @param left milliseconds of the publish. A function has half of them, so that one that never ends fails its message alone
   * @returns what `work` gives; or the failure of the message
   */
  async make<T extends object>(
    message: OutboxMessage,
    left: () => number,
    work: (emitted: Packet) => Promise<T>,
  ): Promise<T | PublishFailure> {
    let emitted: Packet;
    try {
      const plain = decompressed(message);
      const pattern = await this.pattern(plain, left() / 2);
      emitted = { pattern, data: await this.record(plain, left() / 2) };
    } catch (error) {
      return blameForUnmade(error);
    }
    return work(emitted).catch(blameForClient);
  }
}

function ofApplication(option: 'pattern' | 'record', call: (message: OutboxMessage) => unknown): Make {
  return async (message, time) => {
    try {
      let given = inCleanScope(() => call(message));
      if (!isThenable(given)) return given;
      const kept = Promise.resolve(given).then((value) => (given = value));
      if (await within(systemClock, time, kept)) return given;
    } catch (cause) {
      throw new ApplicationFunctionError(option, cause);
    }
    const text = `It did not end within ${Math.round(time)} ms.`;
    throw new ApplicationFunctionError(option, new OutboxError('TIMEOUT', text));
  };
}

/** Calls `work` for each number below `count`, so many at a time. */
export async function forEach(count: number, atOnce: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, worker));
}
